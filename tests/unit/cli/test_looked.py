"""``vpneval look``: its words, and what is refused before anything is asked."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.cli.commands.look.work import instead, lines_of_look, look_at_gateways
from runner.cli.output import Output
from runner.data.errors import UsageError
from runner.data.loads import CoreLoad, Limit, MachineLoad, ProcessLoad, ThreadLoad
from runner.tunnel.bottleneck import Pieces, limit_of
from runner.tunnel.standing import GatewayLook, Look, Way
from runner.vpn.recognised import Recognised

CHOICE = Path(__file__).parents[3] / "results" / "choice" / "two-cores"
WG = Recognised(
    *("wireguard_go", "WireGuard (wireguard-go)", "userspace", "wg0", "tun", 1420, "wireguard-go", (7,)),
    told=("endpoint: 192.0.2.2:51820",),
)
QUIET = Pieces(made=0, arrived=0, failed=0, packets=1000, seconds=3.0)
CUT = QUIET.model_copy(update={"made": 900, "arrived": 900, "longest": True})


def look(**changes: Any) -> Look:
    gateway = GatewayLook(host="a", address="192.0.2.1", kernel="6.12", cpu={}, cores=2, tunnels=[WG], lacks=[])
    every: dict[str, Any] = {"gateways": {"gw1": gateway, "gw2": gateway}, "tunnel": {"gw1": WG, "gw2": WG}}
    return Look(**(every | {"pieces": QUIET, "path": Way(rates_bps=[1e8, 1e8])} | changes))


def shown(found: Look, other: list[str]) -> list[str]:
    console = Output(width=80, file=io.StringIO(), record=True)
    for line in lines_of_look(found, other):
        console.print(line, highlight=False)
    return console.export_text().splitlines()


def test_the_conclusion_comes_first() -> None:
    limit = Limit(sentence="gw1: wireguard-go's only thread, 97 % of a core", where="gw1", kind="thread")
    lines = shown(look(limit=limit, loaded=True), [])
    first = "The tunnel between gw1 and gw2 is WireGuard (wireguard-go) on wg0, MTU 1420, no fragments."
    assert " ".join(" ".join(lines[:2]).split()) == first
    assert lines[2].startswith("What limits it while a probe loads it: gw1: wireguard-go's only thread, 97 % of")
    assert max(map(len, lines)) <= 80


def test_fragments_no_tunnel_and_a_tunnel_without_a_name_are_said() -> None:
    cut = look(pieces=CUT, inside=Way(mtu_bytes=1420, whole_bytes=1328))
    assert "travel in fragments: an MTU of 1328 bytes fits" in " ".join(shown(cut, []))
    assert shown(look(tunnel={}), [])[0] == "No tunnel was found between gw1 and gw2."
    nameless = replace(WG, vpn="", title="", program="mystery")
    what = " ".join(shown(look(tunnel={"gw1": nameless}), []))
    assert "a tunnel of the program mystery on wg0 that no plugin recognises (tun)" in what


def test_a_run_of_these_gateways_says_what_another_vpn_would_change() -> None:
    first, own, kernels = instead(look(), CHOICE)
    assert "Take probably wireguard_go" in first
    assert "100 Mbit/s" in first
    assert own == "wireguard_go: suits it"
    assert "wireguard speaks the protocol of wireguard_go" in kernels
    unknown = instead(look(max_rate_bps=1.1e8), CHOICE)
    assert "By the speed of your line" in unknown[0], "where --max-rate held it, the path's rate is not known"
    assert instead(look(), None) == []
    assert "results/ has no run of these gateways" in " ".join(" ".join(shown(look(), [])).split())


@pytest.mark.parametrize(
    ("gateway", "lab", "rate", "told"),
    [
        ("", "netns", "", "two gateways of an inventory"),
        ("-oProxyCommand=x", "", "", "no gateway that ssh reaches"),
        ("root@gw", "", "10M", "--max-rate needs both gateways"),
    ],
)
def test_what_is_no_gateway_is_refused(gateway: str, lab: str, rate: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        look_at_gateways(gateway, lab, rate, print)


# --- what limits it --------------------------------------------------------------------------------------------


def machine(busy: float) -> MachineLoad:
    thread = ThreadLoad(busy=busy, waiting=0.0, core=0)
    program = ProcessLoad(node="gw1", name="openvpn", role="vpn", busy=busy, allowed=[0, 1], busiest=thread)
    cores = [CoreLoad(core=n, user=busy if n == 0 else 0.0, system=0, irq=0, softirq=0, steal=0) for n in (0, 1)]
    return MachineLoad(name="gw1", nodes=["gw1"], seconds=3, cores=cores, processes=[program])


POLICED = Limit(sentence="policing: 5 of 90 packets", where="gw1", kind="path")


@pytest.mark.parametrize(
    ("tunnel", "path", "busy", "policed", "pieces", "kind", "words"),
    [
        (90e6, 95e6, 0.2, None, QUIET, "none found", "nothing up to 100 Mbit/s"),
        (40e6, 95e6, 0.97, None, QUIET, "thread", "openvpn's only thread"),
        (40e6, 95e6, 0.97, POLICED, QUIET, "path", "policing"),
        (40e6, 43e6, 0.2, None, QUIET, "path", "without the tunnel"),
        (40e6, 95e6, 0.2, None, CUT, "queue", "fragments"),
        (40e6, 95e6, 0.2, None, QUIET, "none found", "no core, queue or quota"),
    ],
)
def test_the_right_limit_is_named(
    tunnel: float, path: float, busy: float, policed: Limit | None, pieces: Pieces, kind: str, words: str
) -> None:
    found = limit_of([tunnel] * 2, [path] * 2, 100e6, policed, pieces, [machine(busy)])
    assert found is not None
    assert found.kind == kind
    assert words in found.sentence
