"""A wrong key: a peer that runs the same VPN, knows everything public, and has private keys of its own making.

Once it takes the near gateway's place, once the far one's, in a lab of its own. No payload may come through. Control:
with the right keys the tunnel came up in the same run, and the stranger's packets arrived at the other gateway.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from runner import probes
from runner.errors import CommandError, ProofError
from runner.lab import Lab
from runner.measure.wire import interface, probe
from runner.node import PATIENCE
from runner.plan import tunnel_levels
from runner.plugin import Params, Secrets, Site, Vpn
from runner.proof import ANSWER_PORT
from runner.security.vantage import (
    PORT,
    Frame,
    Outcome,
    Talker,
    log_sizes,
    message,
    speaker_on,
    write_lines,
    write_pcap,
)
from runner.tunnel import Bench, equip

LEAST_S, TIMES = 2.0, 2.0  # how long to wait: at least, and in all, in set-up times of the right key
PUBLIC = (".crt", ".pub")


def wrong_key(bench: Bench, vpn: Vpn, params: Params) -> Outcome:
    """Leaves ``bench`` without a tunnel."""
    if bench.bare is None or bench.keys is None:
        return Outcome("inconclusive", "there is no second lab here to bring a stranger up in")
    own = bench.keys(False)
    if not own:
        return Outcome("fail", "it has no keys: the tunnel that is up is one with anybody", "it was up")
    others = bench.keys(True)
    wait_s = TIMES * bench.tunnel.setup_s
    came, arrived, refusals, files = [], {}, [], []
    for impostor in bench.lab.sites:
        lab = bench.lab = bench.bare()
        keys = {
            site.name: stranger_of(own, others, site) if site.number == impostor.number else own for site in lab.sites
        }
        logs = lab.gateway(impostor).logs
        logged = log_sizes(logs)
        accepted, frames, refused = attempt(lab, vpn, tunnel_levels(params), keys, impostor, wait_s)
        files += [f"security-wrong-key-{impostor.name}.{suffix}" for suffix in ("pcap", "log")]
        write_pcap(logs / files[-2], frames)
        write_lines(logs / files[-1], logged)
        came += [impostor.name] * accepted
        arrived[impostor.name] = len(frames)
        refusals += refused
    detail = {"waited_s": round(wait_s, 1), "packets_of_the_stranger": arrived, "said": refusals, "evidence": files}
    control = f"with the right keys the tunnel is up in {bench.tunnel.setup_s:.1f} s; the stranger's packets arrived"
    if came:
        return Outcome(
            "fail", f"a peer with other keys is accepted in the place of {' and '.join(came)}", control, detail
        )
    if silent := [name for name, count in arrived.items() if not count]:
        return Outcome(
            "inconclusive", f"no packet of a stranger in the place of {' and '.join(silent)} arrived", detail=detail
        )
    return Outcome("pass", "a peer with other keys is refused, whichever end it takes", control, detail)


def stranger_of(own: Secrets, others: Secrets, site: Site) -> dict[str, str]:
    """What a stranger in the place of ``site`` has: all that is public of the others, and private keys of its own."""
    return {
        name: text if name.endswith(PUBLIC) and not name.startswith(site.name) else others[name]
        for name, text in own.items()
    }


def attempt(
    lab: Lab, vpn: Vpn, params: Params, keys: Mapping[str, Secrets], impostor: Site, wait_s: float
) -> tuple[bool, list[Frame], list[str]]:
    """Did payload come through; the stranger's IPv4 frames at the other gateway; what the plugin complained of."""
    refused = []
    other = next(site for site in lab.sites if site.number != impostor.number)
    watched = lab.gateway(other)
    for site in lab.sites:
        if vpn.image_layer:
            equip(lab.gateway(site), vpn)
        peers = [peer for peer in lab.sites if peer is not site]
        for path, text in vpn.render(site, peers, params, keys[site.name]).items():
            lab.gateway(site).write(path, text)
    with probe(watched, "tap", interface(watched, other.wan_interface), ready="tapping") as process:
        tap = Talker(watched, process)
        ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", vpn.entry(lab.sites), str(ANSWER_PORT))
        started = time.monotonic()
        for site in reversed(lab.sites):
            try:
                vpn.start(lab.gateway(site), site, [peer for peer in lab.sites if peer is not site], params)
            except (CommandError, TimeoutError, ProofError) as error:
                refused.append(f"{site.name}: {str(error)[-300:]}")
        left_s = max(LEAST_S * PATIENCE, wait_s - (time.monotonic() - started))
        first = lab.host1.spawn(*ask, f"{left_s:g}", log=f"first-payload-{impostor.name}")
        with speaker_on(lab.nodes[f"host{impostor.number}"]) as behind:
            while first.alive():  # some VPNs say nothing before there is something to carry
                behind.say(udp=message(64).hex(), to=[other.host_address, PORT])
                time.sleep(0.1)
        accepted = first.wait(left_s + 10) == 0
        seen = [Frame(when, way, bytes.fromhex(data)) for when, way, data in tap.say()["frames"]]
    return accepted, [frame for frame in seen if frame.way == "in" and from_address(frame, impostor)], refused


def from_address(frame: Frame, site: Site) -> bool:
    """Is it an IPv4 packet from the site's WAN address, or MACsec, which only the other gateway sends?"""
    return frame.is_macsec or (frame.is_ip and ".".join(map(str, frame.data[26:30])) == site.wan_address)
