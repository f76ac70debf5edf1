"""Site mode between two of the virtual machines: kernel ESP and WireGuard, a ranking, and both as before, always.

`make test-vagrant SITES=yes` tells this part of the story, which makes it about twice as long; VPNEVAL_KILLS=50 for
more kills than six.
"""

import json
import signal
from pathlib import Path

import pytest

from tests.vagrant.story import KILLS, phase, said, trials, why
from tests.vagrant.two_sites import VPNS, kill, kills_runner

KERNEL = {"ipsec": "ESP", "wireguard": "WireGuard"}
PHASES = ("site-doctor", "site-run", *map(kill, range(KILLS)))


@pytest.fixture(autouse=True)
def told(results: Path) -> None:
    """Skips what the story was not asked for."""
    if "\nphase site " not in (results / "phases").read_text():
        pytest.skip("the story was told without its two sites: make test-vagrant SITES=yes")


def test_the_story_of_the_two_sites_is_told_to_its_end(results: Path) -> None:
    assert phase(results, "site") == 0, said(results, "site")


@pytest.fixture
def checks(results: Path) -> list[dict[str, str]]:
    """The doctor's lines."""
    assert phase(results, "site-doctor") == 0, said(results, "site-doctor")
    found: list[dict[str, str]] = json.loads((results / "site-doctor.out").read_text())
    return found


def test_doctor_describes_the_path(checks: list[dict[str, str]]) -> None:
    says = {check["what"]: check["says"] for check in checks}
    assert says["path MTU"] == "1500 bytes"
    assert says["path NAT"] == "none was seen"
    assert says["path routing"] == "a router or a NAT is in between"
    assert says["path DSCP"] == says["path ECN"] == "the marks survive"
    assert "from gw2 to gw1" in says["path rate"]
    assert "path ports" not in says


@pytest.mark.parametrize("vpn", VPNS.split(","))
def test_doctor_finds_every_vpn_fit(checks: list[dict[str, str]], vpn: str) -> None:
    levels = [check["level"] for check in checks if check["what"].startswith(f"vpn {vpn} (")]
    assert levels
    assert set(levels) == {"ok"}


@pytest.mark.parametrize("vpn", VPNS.split(","))
def test_every_vpn_carries_traffic_between_the_sites(results: Path, vpn: str) -> None:
    assert (results / "site-run").exists(), said(results, "site-run")
    trial = trials(results / "site-run", "transport")[vpn]
    assert trial.status == "ok", why(results / "site-run", trial)
    assert phase(results, "site-run") == 0, said(results, "site-run")
    assert trial.proof is not None
    assert trial.proof.delivered
    assert not trial.proof.marker_on_wan
    assert trial.proof.captured_on == "gw1 --sent eth2 and gw2 --sent eth2"
    assert {m.metric: m.value for m in trial.measurements}["tcp_throughput"] > 0


@pytest.mark.parametrize("vpn", sorted(KERNEL))
def test_the_data_path_is_the_guests_kernel(results: Path, vpn: str) -> None:
    evidence = trials(results / "site-run", "transport")[vpn].evidence
    assert evidence is not None
    assert evidence.data_path.startswith("kernel")
    assert KERNEL[vpn].lower() in evidence.data_path.lower()


def test_the_sites_end_in_a_ranking(results: Path) -> None:
    assert phase(results, "site-report") == 0, said(results, "site-report")
    rankings = json.loads((results / "site-report.out").read_text())["judgements"]["rank"]["rankings"]
    placed = {s["vpn"] for ranking in rankings for s in ranking["standings"] if s["place"] is not None}
    assert placed == set(VPNS.split(","))


@pytest.mark.parametrize("number", range(KILLS))
def test_the_runner_or_one_of_its_connections_was_killed(results: Path, number: int) -> None:
    name = kill(number)
    assert phase(results, name) == (-signal.SIGKILL if kills_runner(number) else 4), said(results, name)


def test_at_the_first_kill_there_was_something_to_undo(results: Path) -> None:
    during = (results / f"{kill(0)}.during").read_text()
    for gateway in ("gw1", "gw2"):
        assert f"{gateway}: new: " in during
    assert "vpneval0" in during
    assert "proto esp" in during, "a policy of the kernel's ESP"


@pytest.mark.parametrize("name", PHASES)
def test_both_machines_are_as_before(results: Path, name: str) -> None:
    assert (results / f"{name}.left").read_text() == ""
