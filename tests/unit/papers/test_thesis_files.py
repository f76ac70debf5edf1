"""`--set transfer=file` is for the thesis' tests of compression, as in its §3.5.1; every other test goes by time."""

import pytest

from runner.catalogue import load_experiment, load_vpn
from runner.data.trials import Trial
from runner.design.profile import PROFILES
from runner.papers.cells import PLAIN
from runner.papers.conditions import by_files
from runner.papers.findings import Data, judge
from tests.unit.findings_worlds import finding
from tests.unit.synthetic import make_run, make_trial

FILE = {"transfer": "file"}
ON = PLAIN | {"compression": "on", "integrity": "hmac-sha256", "payload": "zeros"}
OFF = PLAIN | {"integrity": "hmac-sha256", "payload": "random"}


@pytest.mark.parametrize("vpn", ["openvpn", "ssh_tun", "ipsec", "none"])
def test_files_are_sent_where_compression_is_tested_and_where_it_is_compared(vpn: str) -> None:
    experiment = load_experiment("thesis")
    cells = experiment.cells(load_vpn(vpn), PROFILES["quick"], {"transfer": ["file"], "measure": ["tcp"]})
    plainly = experiment.cells(load_vpn(vpn), PROFILES["quick"], {"measure": ["tcp"]})
    sent = [cell.params for cell in cells if "transfer" in cell.params]
    timed = [cell.params for cell in cells if "transfer" not in cell.params]
    packed = [cell.params for cell in plainly if cell.params["compression"] != "off"]
    assert [params | FILE for params in packed] == [params for params in sent if params["compression"] != "off"]
    assert timed == [cell.params for cell in plainly if cell.params["compression"] == "off"]
    assert len(sent) - len(packed) == (vpn != "none"), "the one that these are compared with"


def trials() -> list[Trial]:
    """OpenVPN sends zeros three times as fast as random bytes by files, and no faster than them by time."""
    rates = ((OFF, 2e8), (OFF | FILE, 1e8), (ON | FILE, 3e8))
    return [
        make_trial("openvpn", params, block, {"tcp_throughput": rate * (1 + block / 100)})
        for params, rate in rates
        for block in range(3)
    ]


@pytest.mark.parametrize(("guest", "note"), [("uml", "what encrypts does so by generic C code"), ("none", "")])
def test_what_encryption_costs_in_user_mode_linux_says_by_what_code(guest: str, note: str) -> None:
    run = make_run(("ipsec",))
    run = run.model_copy(update={"lab": run.lab | {"guest": guest}})
    rates = ((OFF, 1e8), (ON, 1.5e8))
    measured = [
        make_trial("ipsec", params, block, {"tcp_throughput": rate * (1 + block / 100)})
        for params, rate in rates
        for block in range(3)
    ]
    found = judge(finding("thesis", "packed-ipsec-zeros"), run, measured)
    assert (found.verdict, found.note) == ("not reproduced", note)


def test_compression_is_judged_by_the_files_and_everything_else_by_time() -> None:
    run = make_run(("openvpn",))
    judged = judge(finding("thesis", "packed-openvpn-zeros"), run, trials())
    assert judged.value == pytest.approx(3.0, rel=0.01)
    data = by_files(Data(run, trials()), compared=False)
    assert data.blocks("tcp_throughput", "openvpn", **OFF)[0] == 2e8
    assert by_files(Data(run, trials()[:3]), compared=True).trials == trials()[:3], "a run without files is as it was"
