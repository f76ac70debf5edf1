"""The VPNs that need a guest kernel: each held to the contract in one, by tests/kernel/vpns_inside.py."""

import pytest

from runner.data.store import load_run
from tests.contract import leaks
from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.kept import RUN, told
from tests.kernel.vpns_inside import AS_IPSEC, KEYLESS, NAMES, OLDER, TWINS
from tests.lab.commands import vpneval
from tests.lab.test_secrets import files

INSIDE = "tests/kernel/vpns_inside.py"
EVERY = (*OLDER, *NAMES)
LACKING = {"l2tpv3": "the kernel has no L2TPv3: "}  # User Mode Linux 6.1 has L2TP without its version 3

pytestmark = pytest.mark.timeout(WITHIN_S + 60)


@pytest.fixture(scope="module")
def vpns(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["vpns"].outcomes()


@pytest.mark.parametrize("name", [name for name in EVERY if name not in LACKING])
def test_a_vpn_of_a_guest_kernel_keeps_the_contract(vpns: dict[str, str], name: str) -> None:
    assert vpns[f"{INSIDE}::test_contract[{name}]"] == "passed"


@pytest.fixture(scope="module")
def kept(begun: dict[str, Work], vpns: dict[str, str]) -> dict[str, bytes]:
    """What there is of a run with all of them: its files, its reports, and what was on the console."""
    work = begun["vpns"]
    run, done = work.folder / "lab" / RUN, work.done()
    written, shown = vpneval("report", run, "--write"), vpneval("report", run, "--full")
    assert written.returncode == shown.returncode == 0, written.stderr + shown.stderr
    said = done.stdout + done.stderr + written.stdout + written.stderr + shown.stdout + shown.stderr
    console = (work.folder / "console").read_bytes()
    return files(run) | {"on the console": said.encode(), "of the kernel": console}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (*LACKING, *KEYLESS)])
def test_no_secret_of_a_vpn_of_a_guest_kernel_leaves_the_process(
    begun: dict[str, Work], kept: dict[str, bytes], name: str
) -> None:
    folder = begun["vpns"].folder / "lab"
    trials = {trial.status: trial for trial in load_run(folder / RUN)[1] if trial.vpn == name}
    assert {*trials} == ({"ok"} if name in AS_IPSEC else {"ok", "failed"})
    assert f"{trials['ok'].log}/commands.log" in kept
    assert f"{name} " in kept["on the console"].decode(), "its trials were told"
    assert name.encode() in kept["report.html"]
    secrets = told(folder, name)
    assert len({key.split()[0] for key in secrets}) == 2, "those of both ends, and those of a stranger"
    assert not leaks(secrets, kept)


@pytest.mark.parametrize("name", TWINS)
def test_two_of_a_kind_of_a_guest_kernel_stand_in_two_labs_at_once(vpns: dict[str, str], name: str) -> None:
    assert vpns[f"{INSIDE}::test_two_of_a_kind_in_two_labs_at_once[{name}]"] == "passed"


@pytest.mark.parametrize("name", LACKING)
def test_what_this_kernel_lacks_is_said_in_the_tools_words(vpns: dict[str, str], name: str) -> None:
    assert LACKING[name] in vpns[f"{INSIDE}::test_contract[{name}]"]
