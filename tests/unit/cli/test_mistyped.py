"""A mistyped value: the answer names it, what is valid for this VPN or option, and the nearest."""

import shutil
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.data.errors import nearest

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent
REPORT = ("report", str(EXAMPLE), "--weights")
OPENVPN = "Valid for openvpn: aes-128-cbc, aes-192-cbc"
MEASURED = "Valid in this run: context_switches_per_packet, "

MISTYPED = [
    (("plan", "cipher", "--vpn", "openvpn", "--set", "cipher=AES-256-GCM"), "did you mean aes-256-gcm? " + OPENVPN),
    (("plan", "cipher", "--vpn", "openvpn", "--set", "cipher=aes256"), "or aes-256-cbc? " + OPENVPN),
    (
        ("recipe", "wireguard", "--set", "cipher=AES-256-GCM"),
        "unknown cipher level 'AES-256-GCM'. Valid for wireguard: ch",
    ),
    (
        ("plan", "cipher", "--cipher", "aes-256-gcm"),
        "No such option: --cipher. cipher is a factor: --set cipher=aes-256-gcm",
    ),
    (("plan", "cipher", "--wieghts", "tcp"), "No such option: --wieghts; did you mean --weights? Valid: --vpn, "),
    ((*REPORT, "rtt"), "'rtt' is a metric, and a metric needs its weight: rtt=1. Weights are: balanced, "),
    ((*REPORT, "tcp=3"), "unknown metric 'tcp'; did you mean tcp_throughput? " + MEASURED),
    ((*REPORT, "latency=1"), "unknown metric 'latency'; did you mean rtt? " + MEASURED),
    (("plan", "transport", "--weights", "latency=1"), "unknown metric 'latency'; did you mean rtt? " + MEASURED),
    ((*REPORT, ""), "--weights is given without a value. Leave it out, or give PRESET|FILE|metric=w"),
    (
        ("plan", "transport", "--duration", "5s"),
        "'--duration': '5s' is not a whole number; did you mean 5? It takes: length",
    ),
    (("plan", "transport", "--slice", "0.2s"), "'--slice': '0.2s' is not a number; did you mean 0.2? It takes: length"),
    (
        ("plan", "transport", "--reps", "many"),
        "'--reps': 'many' is not a whole number. It takes: number of repetitions",
    ),
    (("recipe", "strongswan"), "unknown VPN 'strongswan'; did you mean ipsec or ipsec_ah"),
    (("recipe", "Wire-Guard"), "unknown VPN 'Wire-Guard'; did you mean wireguard? Valid: boringtun, "),
    (("lab", "shell", "--vpn", "wireguard"), "Missing argument 'NODE'. It is: host1, gw1, wan, gw2 or host2"),
    (("compare", str(EXAMPLE), f"{EXAMPLE}/."), "compare takes two runs, and both are "),
    (("compare", str(EXAMPLE)), "has no two builds of a VPN"),
    (
        ("why", "wireguard", "openvpn", str(EXAMPLE)),
        "compares wireguard and openvpn in nothing: it has no numbers of wireguard (unsupported: the kernel has no "
        "WireGuard: Error: Unknown device type.). It has numbers of: ipsec_user, openvpn, ",
    ),
]


@pytest.mark.parametrize(("argv", "said"), MISTYPED, ids=[" ".join(argv[-2:]) for argv, _ in MISTYPED])
def test_the_answer_to_a_mistyped_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit, match="2"):
        main([*argv])
    assert said in capsys.readouterr().err


def test_a_copy_of_a_run_is_the_run_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "copy")
    with pytest.raises(SystemExit, match="2"):
        main(["compare", str(EXAMPLE), str(tmp_path / "copy")])
    assert "hold the same measurements" in capsys.readouterr().err


def test_what_is_nothing_like_it_is_not_offered() -> None:
    valid = ["openvpn", "wireguard", "ipsec"]
    assert nearest("xyz", valid, {}) == []
    assert nearest("s", valid, {"ipsec": "strongSwan"}) == [], "one letter tells nothing"
    assert nearest("swan", valid, {"ipsec": "strongSwan"}) == ["ipsec"]
