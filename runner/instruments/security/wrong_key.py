"""A wrong key: a peer that runs the same VPN, knows everything public, and has private keys of its own making.

Once it takes the near gateway's place, once the far one's, in a lab of its own. No payload may come through. Control:
with the right keys the tunnel came up in the same run, and the stranger's packets arrived at the other gateway; or,
where a stranger only answers and cannot read what calls it, the other gateway's calls arrived at its open port.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from ipaddress import ip_address

from runner.data.errors import CommandError, ProofError
from runner.data.levels import Params, tunnel_levels
from runner.instruments.security.stranger import TCP, UDP
from runner.instruments.security.vantage import (
    PORT,
    Frame,
    ProbeOutcome,
    inconclusive,
    log_sizes,
    message,
    speaker_on,
    write_lines,
    write_pcap,
)
from runner.instruments.tools.between import Talker
from runner.lab import probes
from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.iproute import interface
from runner.lab.node.probing import probe
from runner.lab.shape.site import Site, peers_of
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench, prepare_beside, put_files, start_beside
from runner.tunnel.proof import ANSWER_PORT, has_answer
from runner.vpn.plugin import Secrets, Vpn, entry

LEAST_S, TIMES = 2.0, 2.0  # how long to wait: at least, and in all, in set-up times of the right key
LONGER_S = 10.0  # while nothing is heard: on a busy machine a daemon may start late
PUBLIC = (".crt", ".pub")
ICMP = 1


def wrong_key(bench: Bench, vpn: Vpn, params: Params) -> ProbeOutcome:
    """Does payload pass a peer with private keys of its own? It must not. Leaves ``bench`` without a tunnel."""
    own = bench.keys()
    if not own:
        return ProbeOutcome("fail", "it has no keys: the tunnel that is up is one with anybody", "it was up")
    others = bench.keys(others=True)
    wait_s = TIMES * bench.tunnel.setup_s
    came, arrived, calls, refusals, files = [], {}, {}, [], []
    for impostor in bench.lab.sites:
        lab = bench.lab = bench.bare()
        keys = {
            site.name: stranger_of(own, others, site) if site.number == impostor.number else own for site in lab.sites
        }
        logs = lab.gateway(impostor).logs
        logged = log_sizes(logs)
        accepted, frames, called, refused = attempt(lab, vpn, tunnel_levels(params), keys, impostor, wait_s)
        files += [f"security-wrong-key-{impostor.name}.{suffix}" for suffix in ("pcap", "log")]
        write_pcap(logs / files[-2], frames + called)
        write_lines(logs / files[-1], logged)
        came += [impostor.name] * accepted
        arrived[impostor.name] = len(frames)
        calls[impostor.name] = len(called)
        refusals += refused
    detail = {
        "waited_s": round(wait_s, 1),
        "packets_of_the_stranger": arrived,
        "calls_to_the_stranger": calls,
        "said": refusals,
        "evidence": files,
    }
    quiet = [name for name, count in arrived.items() if not count and calls[name]]
    control = f"with the right keys the tunnel is up in {bench.tunnel.setup_s:.1f} s; the stranger's packets arrived"
    control += "".join(
        f"; in the place of {name} it only answers, and was called {calls[name]} times" for name in quiet
    )
    if came:
        return ProbeOutcome(
            "fail", f"a peer with other keys is accepted in the place of {' and '.join(came)}", control, detail
        )
    if silent := [name for name, count in arrived.items() if not count and name not in quiet]:
        return inconclusive(f"no packet of a stranger in the place of {' and '.join(silent)} arrived", detail)
    return ProbeOutcome("pass", "a peer with other keys is refused, whichever end it takes", control, detail)


def stranger_of(own: Secrets, others: Secrets, site: Site) -> dict[str, str]:
    """What a stranger in the place of ``site`` has: all that is public of the others, and private keys of its own."""
    return {
        name: text if name.endswith(PUBLIC) and not name.startswith(site.name) else others[name]
        for name, text in own.items()
    }


def attempt(
    lab: Lab, vpn: Vpn, params: Params, keys: Mapping[str, Secrets], impostor: Site, wait_s: float
) -> tuple[bool, list[Frame], list[Frame], list[str]]:
    """Bring the tunnel up with an impostor. Returns whether payload came through; the impostor's frames that arrived at
    the other gateway, or at what the VPN needs beside them; the other's frames that arrived at an open port of the
    impostor; the plugin's complaints."""
    refused = []
    other = next(site for site in lab.sites if site.number != impostor.number)
    prepare_beside(lab, vpn, params, keys[other.name])
    # A coordinator does not tell a stranger of the other gateway: it is the one that hears and refuses.
    watched, strange = lab.nodes[vpn.beside or other.name], lab.gateway(impostor)
    for site in lab.sites:
        files = vpn.render(site, peers_of(site, lab.sites), params, keys[site.name])
        put_files(lab.gateway(site), vpn, files)
    with (
        probe(watched, "tap", interface(watched, other.wan_interface), ready="tapping") as process,
        probe(strange, "tap", interface(strange, impostor.wan_interface), ready="tapping") as strange_process,
    ):
        tap, strange_tap = Talker(watched, process), Talker(strange, strange_process)
        ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", entry(vpn, lab.sites), str(ANSWER_PORT))
        started = time.monotonic()
        start_beside(lab, vpn, params)
        for site in reversed(lab.sites):
            try:
                vpn.start(lab.gateway(site), site, peers_of(site, lab.sites), params)
            except (CommandError, TimeoutError, ProofError) as error:
                refused.append(f"{site.name}: {str(error)[-300:]}")
        from_impostor: list[Frame] = []
        calls: list[Frame] = []

        def heard() -> bool:
            from_impostor.extend(frame for frame in received_frames(tap) if from_address(frame, impostor))
            calls.extend(frame for frame in received_frames(strange_tap) if from_address(frame, other))
            return bool(from_impostor or to_open_ports(strange, calls))

        left_s = max(LEAST_S * PATIENCE, wait_s - (time.monotonic() - started))
        at_most_s = 2 * left_s + LONGER_S * PATIENCE
        first = lab.host1.spawn(*ask, f"{at_most_s:g}", log=f"first-payload-{impostor.name}")
        since, end = None, time.monotonic() + left_s + LONGER_S * PATIENCE
        with speaker_on(lab.nodes[f"host{impostor.number}"]) as behind:
            while first.alive() and time.monotonic() < end:
                # Some VPNs say nothing before there is something to carry.
                behind.say(udp=message(64).hex(), to=[other.host_address, PORT])
                time.sleep(0.1)
                if since is None and heard():  # from now on it could be accepted
                    since = time.monotonic()
                    end = since + left_s
        accepted = not first.alive() and has_answer(lab.host1, first.wait(1))
        first.stop()
        heard()
        return accepted, from_impostor, to_open_ports(strange, calls), refused


def received_frames(tap: Talker) -> list[Frame]:
    """The frames with a payload that the tap's port has received."""
    seen = [Frame(when, way, bytes.fromhex(data)) for when, way, data in tap.say()["frames"]]
    return [frame for frame in seen if frame.way == "in" and says_something(frame)]


def to_open_ports(node: LabNode, frames: list[Frame]) -> list[Frame]:
    """Those of the frames that are for a port on which somebody on the node listens."""
    listening = {int(port) for port in re.findall(r":(\d+) ", node.run("ss", "-Hlunt").stdout)}
    return [frame for frame in frames if port_of(frame) in listening]


def says_something(frame: Frame) -> bool:
    """Does it carry a payload? A kernel alone only answers that nobody listens: by ICMP, or by a bare TCP segment."""
    return frame.is_macsec or (frame.is_ip and frame.protocol != ICMP and bool(frame.payload))


def port_of(frame: Frame) -> int | None:
    """The frame's destination port, of UDP or TCP."""
    if frame.is_macsec or frame.protocol not in (TCP, UDP):
        return None
    return int.from_bytes(frame.data[frame.upper_at + 2 : frame.upper_at + 4], "big")


def from_address(frame: Frame, site: Site) -> bool:
    """Is it an IP packet from the site's WAN address, or MACsec, which only the other gateway sends?"""
    return frame.is_macsec or (frame.is_ip and frame.ends[0] == ip_address(site.wan_address).packed)
