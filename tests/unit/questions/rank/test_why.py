"""What ``vpneval why A B`` prints: the machine, the tunnels, the traffic, and a sentence for each metric."""

import os
import re
from pathlib import Path

import pytest

from questions.rank.verdict_words import sentence
from questions.rank.why import why, why_each
from runner.catalogue import load_run
from runner.cli.folders import latest
from runner.data.errors import UsageError
from runner.data.parent import add_to_index
from runner.ranking.model import Verdict
from runner.report.headings import machine
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

EXAMPLE = next((Path(__file__).parents[4] / "results" / "examples").glob("*/run.json")).parent


def test_the_heading_has_the_machine_the_tunnels_and_the_traffic() -> None:
    run, trials = load_run(EXAMPLE)
    lines = why(run, trials, "wireguard_go", "openvpn")
    assert lines[0] == machine(build(run, trials))
    assert "2 cores, Linux" in lines[0]
    assert lines[1:3] == [
        "",
        "comparable: wireguard_go (chacha20-poly1305, aead) against openvpn (aes-128-cbc, hmac-sha256)",
    ]
    assert lines[3].startswith(
        "Traffic: TCP throughput (tcp, 1 stream, random, forward); UDP throughput, Jitter (udp, 1300 B); "
    )
    assert re.match(r"wireguard_go has [\d.]+ \([\d.]+ to [\d.]+\) times the TCP throughput of openvpn", lines[4])
    assert sum(line.startswith("Traffic: ") for line in lines) == 2, "one for each configuration"


def test_the_kin_of_a_vpn_that_was_not_measured_answers_for_it() -> None:
    run, trials = load_run(EXAMPLE)
    spoken = {"wireguard_go": "wireguard", "wireguard": "wireguard"}
    records = {name: run.vpns["wireguard_go"].model_copy(update={"speaks": speaks}) for name, speaks in spoken.items()}
    told = run.model_copy(update={"vpns": run.vpns | records})
    without = [trial for trial in trials if trial.vpn != "wireguard"]
    (said,) = why_each(told, without, "wireguard", "openvpn")
    assert said[0] == "wireguard was not measured here. wireguard_go speaks the same protocol, and was."
    assert said[1:] == why(told, without, "wireguard_go", "openvpn")
    with pytest.raises(UsageError, match="in nothing"):
        why_each(told, without, "wireguard", "wireguard_go")


def test_a_factor_of_costs_is_told_with_the_rates_that_it_is_of() -> None:
    full = Verdict(
        configuration="", image="", metric="cpu_per_gigabyte", a="x", b="y", decision="worse", ratio=1.93, margin=1.05,
        a_bps=126e6, b_bps=630e6,
    )  # fmt: skip
    metric = load_run(EXAMPLE)[0].metrics["cpu_per_gigabyte"]
    assert "of y, each at its full speed (126 Mbit/s and 630 Mbit/s): worse" in sentence(metric, full)
    assert "(630 Mbit/s and 126 Mbit/s): better" in sentence(metric, full.other_way)
    paced = full.model_copy(update={"a_bps": 1e8, "b_bps": 1e8})
    assert ", both at 100 Mbit/s: worse" in sentence(metric, paced)


def test_the_rate_of_a_cost_is_what_was_asked_or_carried_at_full_speed() -> None:
    lines = why(*load_run(EXAMPLE), "wireguard_go", "openvpn")
    assert any("CPU cost of the gateways of openvpn, both at 20 Mbit/s: worse" in line for line in lines)
    full = why(*load_run(EXAMPLE.parents[1] / "choice" / "two-cores"), "wireguard_go", "openvpn")
    assert any("CPU cost of openvpn, each at its full speed (" in line for line in full)
    assert not any("round-trip time of openvpn, " in line for line in [*lines, *full])


def test_nothing_to_compare_is_an_error_and_no_heading() -> None:
    run, trials = realistic_run(2)
    with pytest.raises(UsageError, match="compares ipsec and openvpn in nothing"):
        why(run, trials, "ipsec", "openvpn")


def stored(folder: Path, vpns: tuple[str, ...], written_at: int) -> None:
    """A run folder with the trials of these VPNs, written at that time."""
    folder.mkdir(parents=True)
    run, trials = load_run(EXAMPLE)
    (folder / "run.json").write_text(run.model_dump_json())
    mine = [trial for trial in trials if trial.vpn in vpns]
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in mine))
    os.utime(folder / "run.json", (written_at, written_at))


def test_without_a_folder_the_latest_run_of_the_users_own_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vpns = ("openvpn", "wireguard_go")
    for folder in ("papers/thesis", "examples/quick", "published/old"):
        stored(Path("results") / folder, vpns, 9)
    with pytest.raises(UsageError, match=r"no run of yours yet.*make compare.*vpneval why wireguard_go openvpn DIR"):
        latest("why wireguard_go openvpn", "wireguard_go", "openvpn")
    stored(Path("results/first"), vpns, 1)
    stored(Path("results/second"), vpns, 2)
    assert latest("why", "wireguard_go", "openvpn") == Path("results/second")


def test_of_runs_under_several_kernels_the_machines_own_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    both = Path("results/both")
    stored(both / "host", ("openvpn", "wireguard_go"), 1)
    stored(both / "uml", ("openvpn", "wireguard_go", "ipsec_user"), 2)
    for name in ("uml", "host"):
        add_to_index(both, name, "complete")
    assert latest("why", "wireguard_go", "openvpn") == both / "host"
    assert latest("why", "ipsec_user", "openvpn") == both / "uml", "only this one has both"
    assert latest("why", "ipsec_user", "ssh_tun") == both / "host", "which says that it has them not"
