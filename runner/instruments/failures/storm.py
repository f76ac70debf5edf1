"""Many tunnels to one hub, which reboots or restarts: how long until half, most and all of them are back.

    gw1 … gwN ══ wan ══ hub        each spoke dials the hub; each has its LAN's address on its loopback

A spoke asks the hub's LAN five times a second (ping(8)). The control is in the same trial: every spoke must be answered
before the restart, and none while the hub is down.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from math import ceil

from runner.data.errors import InstrumentError, MeasurementError, Unsupported
from runner.data.levels import Levels, Params, tunnel_levels
from runner.data.metric import Metric, time_s
from runner.data.remarks import Remark
from runner.design.profile import Profile
from runner.instruments.failures.breaks import clear, end_all
from runner.instruments.instrument import Asked, Whole
from runner.instruments.operator.counts import mesh as sites_of
from runner.instruments.operator.mesh import star
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import own_cpu_s, pss_bytes
from runner.lab.node import PATIENCE, LabNode, wait_until
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.bring_up import Bench, prepare_beside, put_files, start_beside
from runner.vpn.plugin import Secrets, Vpn

ASK_S = 0.2
DOWN_S = 1.0  # in which nobody may be answered
LIMIT_S = 120.0  # for all to come up, and for all to come back
SHARES = {"storm_half": 0.5, "storm_most": 0.9, "storm_all": 1.0}
FILES_OF_A_LAB = 5  # nodes of a usual lab, for the open files that this one needs
ANSWER = re.compile(r"^\[(\d+\.\d+)\] \d+ bytes from", re.MULTILINE)


def storm(bench: Bench, vpn: Vpn, params: Params, spokes: int, how: str) -> Measured:
    """Bring ``spokes`` tunnels to one hub up, ``restart`` or ``reboot`` the hub, and wait for them.

    Raises MeasurementError where not all come up, and InstrumentError where the control fails.
    """
    vpn, sites = vpn.as_hub(), sites_of(spokes + 1)
    secrets = bench.keys(sites=sites)
    with bench.meshes(star(sites)) as lab:
        measured = storm_in(lab, vpn, tunnel_levels(params), secrets, how)
    return measured


def storm_in(lab: Lab, vpn: Vpn, params: Params, secrets: Secrets, how: str) -> Measured:
    """The same in a lab whose last site is the hub."""
    *spokes, hub = lab.sites
    centre = lab.gateway(hub)
    prepare(lab, vpn, params, secrets)
    asking(lab, spokes, hub)
    began_s = time.time()
    start_beside(lab, vpn, params)
    vpn.start(centre, hub, spokes, params)
    for spoke in spokes:
        vpn.start(lab.gateway(spoke), spoke, [hub], params)
    up = first_answers_s(lab, spokes, began_s, LIMIT_S * PATIENCE)
    if len(up) < len(spokes):
        raise MeasurementError(f"{len(up)} of {len(spokes)} spokes reached the hub within {LIMIT_S * PATIENCE:g} s")

    take_down(centre, hub, how)
    down_s = time.time()
    time.sleep(DOWN_S)
    if early := first_answers_s(lab, spokes, down_s + ASK_S, limit_s=0):
        raise InstrumentError(f"{len(early)} spokes were answered while the hub was down")
    batch(centre, f"link set {hub.wan_interface} up")
    again_s, spent_s = time.time(), own_cpu_s(centre)
    vpn.start(centre, hub, spokes, params)
    back = first_answers_s(lab, spokes, again_s, LIMIT_S * PATIENCE)
    cost = own_cpu_s(centre) - spent_s
    memory = pss_bytes(centre)
    return results(len(spokes), up, back, cost, memory)


def take_down(centre: LabNode, hub: Site, how: str) -> None:
    """End the hub's daemons: told to by a ``restart``, and without a word by a ``reboot``, its port down."""
    if how == "reboot":
        batch(centre, f"link set {hub.wan_interface} down")
    end_all(centre, "KILL" if how == "reboot" else "TERM")
    clear(centre)


def prepare(lab: Lab, vpn: Vpn, params: Params, secrets: Secrets) -> None:
    """Everything up to the start: tools and files on each gateway. A spoke knows the hub alone."""
    *spokes, hub = lab.sites
    prepare_beside(lab, vpn, params, secrets)
    for site in lab.sites:
        files = vpn.render(site, spokes if site is hub else [hub], params, secrets)
        put_files(lab.gateway(site), vpn, files)


def asking(lab: Lab, spokes: Sequence[Site], hub: Site) -> None:
    """Let each spoke ask the hub from now on; ping(8) ends where there is no route yet, and begins again."""
    wait_until(
        lambda: lab.gateway(spokes[-1]).run("ping", "-c1", "-W1", hub.wan_address, check=False).code == 0, "a bare WAN"
    )
    for spoke in spokes:
        ping = f"ping -n -D -i {ASK_S:g} -I {spoke.lan_address} {hub.lan_address}"
        lab.gateway(spoke).spawn("sh", "-c", f"while :; do {ping}; sleep {ASK_S:g}; done", log="asks")


def first_answers_s(lab: Lab, spokes: Sequence[Site], since_s: float, limit_s: float) -> list[float]:
    """How long after ``since_s`` (of the epoch) each spoke had its first answer, in order; those that had none within
    ``limit_s`` are left out."""
    end_s = time.monotonic() + limit_s
    found: dict[str, float] = {}
    while True:
        for spoke in spokes:
            if spoke.name not in found:
                times = map(float, ANSWER.findall(lab.gateway(spoke).read_log("asks")))
                if (first := next((at_s for at_s in times if at_s > since_s), None)) is not None:
                    found[spoke.name] = first - since_s
        if len(found) == len(spokes) or time.monotonic() > end_s:
            return sorted(found.values())
        time.sleep(ASK_S)


def results(spokes: int, up: Sequence[float], back: Sequence[float], cpu_s: float, memory: int) -> Measured:
    """The times of the shares of spokes that are back, and the hub's cost; a share that is not back has none."""
    measured = Measured([measurement("storm_start", round(up[-1], 2), [round(each, 2) for each in up])])
    for metric, share in SHARES.items():
        needed = ceil(share * spokes)
        if len(back) >= needed:
            measured.measurements.append(measurement(metric, round(back[needed - 1], 2), resolution_s=ASK_S))
        else:
            why = f"{len(back)} of {spokes} spokes were back within {LIMIT_S * PATIENCE:g} s"
            measured.remarks.append(Remark(kind="no value", subject=f"{share:.0%} of the tunnels back", why=why))
    if len(back) == spokes:
        measured.measurements.append(measurement("storm_cpu", round(cpu_s, 3)))
        measured.measurements.append(measurement("storm_memory", float(memory)))
    measured.measurements[0].detail.update(back_s=[round(each, 2) for each in back], spokes=spokes)
    return measured


class Storm(Whole):
    """A hub that reboots or restarts, and all its spokes that come back."""

    name = "storm"
    datagrams = True
    factors = {
        "spokes": Levels(("10", "50"), range=(2, 100), default="50", told="{} spokes".format),
        "hub_failure": Levels(("reboot", "restart"), default="reboot", told="{} of the hub".format),
    }
    metrics = (
        time_s(
            name="storm_start",
            title="Time until all tunnels of a hub are up",
            definition="From the first command on the hub, then on each spoke, until each spoke's echo request through "
            "its tunnel has been answered by the hub. Keys and files are in place.",
            source="RFC 792 (echo)",
            margin=1.5,
        ),
        *(
            time_s(
                name=name,
                title=f"Time until {share:.0%} of a hub's tunnels are back",
                definition="The hub dies without a word, or its daemons are told to end (factor hub_failure); a second "
                f"later they are started again. The time from then until {share:.0%} of the spokes were answered "
                "through their tunnels. Every spoke asks five times a second.",
                source="RFC 6201 §4 (reset, recovery time); RFC 792 (echo)",
                margin=1.5,
            )
            for name, share in SHARES.items()
        ),
        time_s(
            name="storm_cpu",
            title="CPU time of a hub until all are back",
            definition="CPU time of all processes of the hub, from their start until all spokes are back.",
            source="cgroups(7), cpu.stat",
            margin=1.5,
        ),
        Metric(
            name="storm_memory",
            title="Memory of a hub",
            unit="B",
            better="lower",
            definition="Proportional set size of the hub's processes when all spokes are back. The kernel's own memory "
            "is not counted.",
            source="proc_pid_smaps(5), smaps_rollup, Pss",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.kind != "netns":
            return Unsupported("a hub with many spokes needs the namespace lab")
        return super().refuses(lab, vpn, params)

    def labs(self, params: Mapping[str, str]) -> int:
        return 1 + ceil(int(params["spokes"]) / FILES_OF_A_LAB)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 10.0 + 1.5 * int(params["spokes"])

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return storm(bench, asked.vpn, asked.params, int(asked.params["spokes"]), asked.params["hub_failure"])
