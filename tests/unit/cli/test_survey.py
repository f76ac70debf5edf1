"""What is told before a run with --rest: what runs where, what is installed, what would run the rest, and the time."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.data.errors import CannotRunHere
from runner.lab import kernels
from runner.stages import survey
from runner.sweep.request import Request
from tests.unit.asking import request

ROOT = Path(__file__).parents[3]
# apt-get --quiet install --simulate, Debian 12: what is new, and what has another version already, in brackets.
SIMULATED = """Reading package lists...
Inst libfoo [1.2-3] (1.2-4 Debian:12.5/stable [amd64])
Inst user-mode-linux (6.1um1 Debian:12.5/stable [amd64])
Conf user-mode-linux (6.1um1 Debian:12.5/stable [amd64])
"""
DOCTOR = """[{"what": "kernel", "level": "ok", "says": "6.1.0", "vpn": "", "configuration": ""},
 {"what": "", "level": "ok", "says": "works", "vpn": "ipsec", "configuration": "comparable"},
 {"what": "", "level": "warning", "says": "no", "vpn": "ipsec", "configuration": "recommended"},
 {"what": "", "level": "warning", "says": "the kernel has no WireGuard", "vpn": "wireguard",
  "configuration": "comparable"}]"""


@pytest.fixture
def asked() -> Request:
    return request("reference", vpns="ipsec,wireguard,openvpn", deadline_s=350)


def told(
    monkeypatch: pytest.MonkeyPatch, asked: Request, here: dict[str, str], there: Any, **how: Any
) -> tuple[str | None, str]:
    """The name of the second run's kernel, None where it is not worth it; and all that was said."""
    said: list[str] = []
    monkeypatch.setattr(survey, "ask_here", lambda asked: {vpn.name: here.get(vpn.name, "") for vpn in asked.vpns})
    monkeypatch.setattr(survey, "ask_under", there)
    monkeypatch.setattr(survey, "apt_install", lambda packages: said.append(f"(installed {packages})"))
    monkeypatch.setattr(kernels.Qemu, "commands", lambda self: [] if how.get("qemu") else ["apt-get install qemu"])
    found = survey.survey(asked, kernels.Uml(), how.get("install", False), said.append)
    return found.name if found else None, "\n".join(said)


def ready(monkeypatch: pytest.MonkeyPatch, missing: Sequence[str] = ()) -> None:
    monkeypatch.setattr(kernels.Uml, "missing_packages", lambda self: list(missing))
    monkeypatch.setattr(kernels.Uml, "prepare", lambda self, say: None)
    monkeypatch.setattr(Path, "mkdir", lambda self, **how: None)


def test_where_this_kernel_has_all_there_is_one_ranking(monkeypatch: pytest.MonkeyPatch, asked: Request) -> None:
    kernel, said = told(monkeypatch, asked, {}, None)
    assert kernel is None
    assert "runs: ipsec, wireguard, openvpn." in said
    assert said.endswith("The run takes at most 6 min.")


def test_what_lacks_is_said_with_where_it_runs_and_what_would_run_the_rest(
    monkeypatch: pytest.MonkeyPatch, asked: Request
) -> None:
    ready(monkeypatch)
    no = {"ipsec": "the kernel has no ESP", "wireguard": "the kernel has no WireGuard"}
    kernel, said = told(monkeypatch, asked, no, lambda kernel, asked: survey.answers(DOCTOR))
    assert kernel == "uml"
    assert "runs: openvpn." in said
    assert "Its kernel lacks what these VPNs need: ipsec, wireguard." in said
    assert "User Mode Linux runs: ipsec." in said
    assert "Nothing here runs wireguard: the kernel has no WireGuard" in said
    command = f"run {' '.join(asked.asked.experiments)} --kernel qemu --vpn ipsec,wireguard,openvpn"
    (minutes,) = re.findall(rf"vpneval {command} --deadline (\d+)m\.", said)
    assert f"This takes at most {minutes} minutes" in said
    assert 5 < int(minutes) < 120
    assert said.endswith("at most 6 min on this machine's kernel, and at most 2 min more under User Mode Linux.")


def test_only_what_is_missing_is_installed_and_only_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, asked: Request
) -> None:
    ready(monkeypatch, ["kmod"])
    no = {"ipsec": "the kernel has no ESP"}
    _, said = told(monkeypatch, asked, no, lambda kernel, asked: {"ipsec": ""}, install=True)
    assert "vpneval installs what User Mode Linux needs: kmod. It upgrades nothing.\n(installed ['kmod'])" in said
    _, said = told(monkeypatch, asked, no, lambda kernel, asked: {"ipsec": ""})
    assert "installed" not in said


def test_make_first_says_what_comes_and_how_long_it_takes() -> None:
    """Before it installs or builds anything."""

    def said(*settings: str) -> str:
        argv = ["make", "--no-print-directory", "announced", *settings]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert re.search(
        r"^compare: \$\(if \$\(ON_THIS_MACHINE\),announced doctor image,", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    told = said("DEADLINE=90s", "REST=uml")
    assert told.count("\n") == 1
    parts = ["installs what is missing", "asks which VPNs", "measures them for at most 90s", "under uml", "which line"]
    assert [told.find(part) for part in parts] == sorted(told.find(part) for part in parts)
    assert all(part in told for part in parts)
    assert "uml" not in said("REST=")


def test_make_upgrades_nothing() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = re.findall(r"apt-get [^;]*\binstall\b[^;]*", makefile)
    assert installs
    assert all("--no-upgrade" in words for words in installs)


def test_a_guest_that_cannot_start_costs_the_second_run_alone(monkeypatch: pytest.MonkeyPatch, asked: Request) -> None:
    def refuses(self: object, say: object) -> None:
        raise CannotRunHere("User Mode Linux is missing; get it with: apt-get install user-mode-linux kmod")

    monkeypatch.setattr(kernels.Uml, "prepare", refuses)
    kernel, said = told(monkeypatch, asked, {"ipsec": "the kernel has no ESP"}, None)
    assert kernel is None
    assert "User Mode Linux cannot be used: User Mode Linux is missing; get it with: apt-get install" in said
    assert "Nothing here runs ipsec: the kernel has no ESP" in said
    assert said.endswith("at most 6 min on this machine's kernel.")


def refused(kernel: Any, asked: Request) -> dict[str, str]:
    if kernel.name == "uml":
        raise CannotRunHere("the guest kernel uml does not start on this machine: this CPU has AMX")
    return {"ipsec": "", "wireguard": ""}


def test_a_kernel_that_does_not_start_gives_its_place_to_one_that_does(
    monkeypatch: pytest.MonkeyPatch, asked: Request
) -> None:
    ready(monkeypatch)
    monkeypatch.setattr(kernels.Qemu, "prepare", lambda self, say: None)
    no = {"ipsec": "the kernel has no ESP", "wireguard": "the kernel has no WireGuard"}
    kernel, said = told(monkeypatch, asked, no, refused, qemu=True)
    assert kernel == "qemu:trixie"
    assert said.count("AMX") == 1
    assert (
        "User Mode Linux cannot be used: the guest kernel uml does not start on this machine: this CPU has AMX\n"
        "vpneval takes Debian 13 in QEMU in its place.\n"
    ) in said
    assert "Debian 13 in QEMU runs: ipsec, wireguard." in said
    assert said.endswith("and at most 2 min more under Debian 13 in QEMU.")


def test_a_kernel_keeps_its_place_where_the_other_lacks_packages_or_it_does_itself(
    monkeypatch: pytest.MonkeyPatch, asked: Request
) -> None:
    ready(monkeypatch)
    no = {"ipsec": "the kernel has no ESP"}
    assert told(monkeypatch, asked, no, refused)[0] is None
    ready(monkeypatch, ["tcc"])
    assert told(monkeypatch, asked, no, refused, qemu=True)[0] is None


def test_a_package_that_would_be_upgraded_stops_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert survey.upgrades(SIMULATED) == ["libfoo"]
    calls: list[tuple[str, ...]] = []

    def apt(*words: str) -> str:
        calls.append(words)
        return SIMULATED

    monkeypatch.setattr(survey, "_apt", apt)
    with pytest.raises(CannotRunHere, match="would upgrade libfoo; if you agree: apt-get install user-mode-linux"):
        survey.apt_install(["user-mode-linux"])
    assert all("--simulate" in words or words == ("update",) for words in calls)
    monkeypatch.setattr(survey, "upgrades", lambda simulated: [])
    survey.apt_install(["user-mode-linux"])
    assert calls[-1] == ("install", "--yes", "--no-install-recommends", "--no-upgrade", "user-mode-linux")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "did not say which VPNs"),
        ("[]", "did not say which VPNs"),
        ('[{"what": "lab netns", "level": "error", "says": "no namespaces"}]', "lab netns: no namespaces"),
    ],
)
def test_a_guest_without_an_answer(text: str, why: str) -> None:
    with pytest.raises(CannotRunHere, match=why):
        survey.answers(text)
