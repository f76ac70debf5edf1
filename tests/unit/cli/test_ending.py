"""The exit code of a run: 0 where every VPN has its numbers, 1 where one is left without, and what is said of it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from runner.cli import ending
from runner.data.levels import BASELINE
from runner.data.store import open_store
from runner.data.trials import Cell, Trial
from runner.sweep.plan import ranked_cells
from runner.sweep.request import Request
from tests.unit.asking import request
from tests.unit.synthetic import make_run, make_trial

Status = Literal["ok", "failed", "unsupported"]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(ending, "tell", found.append)
    return found


@pytest.fixture
def asked() -> Request:
    return request("transport", vpns="openvpn,wireguard")


def cells_of(asked: Request) -> list[Cell]:
    """OpenVPN's, those of the ranking first."""
    ranked = ranked_cells(asked.cells, {vpn.name: vpn for vpn in asked.vpns})
    return sorted((cell for cell in asked.cells if cell.vpn == "openvpn"), key=lambda cell: cell.key not in ranked)


def others(asked: Request, trials: list[Trial]) -> list[Trial]:
    """A trial with a number of each ranked cell that is not among ``trials``."""
    ranked = ranked_cells(asked.cells, {vpn.name: vpn for vpn in asked.vpns}).keys() - {one.cell for one in trials}
    return [trial(cell, 0) for cell in asked.cells if cell.key in ranked]


def stored(folder: Path, trials: list[Trial], trimmed: int = 1) -> Path:
    """A run that a deadline has ended."""
    run = make_run(("none", "openvpn", "wireguard"))
    call = run.invocations[0].model_copy(update={"trimmed": trimmed})
    with open_store(folder) as store:
        store.save_run(run.model_copy(update={"invocations": [call]}))
        for trial in trials:
            store.append(trial)
    return folder


def trial(cell: Cell, block: int, status: Status = "ok") -> Trial:
    made = make_trial(cell.vpn, cell.params, block, {"rtt": 1.0} if status == "ok" else {})
    reason = "" if status == "ok" else "no answer came\nits log"
    return made.model_copy(update={"status": status, "reason": reason})


def test_where_every_trial_has_a_number_nothing_is_said(tmp_path: Path, asked: Request, said: list[str]) -> None:
    lacking = [trial(cell, 0, "unsupported") for cell in asked.cells if cell.vpn == "wireguard"]
    folder = stored(tmp_path / "run", [*others(asked, lacking), *lacking])
    assert ending.without_number(asked, folder, strict=False) == 0
    assert ending.without_number(asked, folder, strict=True) == 0, "what this machine lacks is no failure"
    assert said == []


def test_one_failed_measurement_of_a_vpn_that_has_a_number_is_said_and_is_0(
    tmp_path: Path, asked: Request, said: list[str]
) -> None:
    cell = cells_of(asked)[0]
    mine = [trial(cell, 0), trial(cell, 1, "failed")]
    rest = others(asked, mine)
    folder = stored(tmp_path / "run", [*mine, *rest])
    assert ending.without_number(asked, folder, strict=False) == 0
    assert len(said) == 1
    assert said[0].startswith(f"1 of {2 + len(rest)} trials gave no number. The first of them: openvpn ")
    assert said[0].endswith(": no answer came")
    assert ending.without_number(asked, folder, strict=True) == 1


def test_a_vpn_that_is_left_without_a_number_in_the_ranking_is_1(
    tmp_path: Path, asked: Request, said: list[str]
) -> None:
    first, second = cells_of(asked)[:2]
    folder = stored(tmp_path / "run", [trial(first, 0, "failed"), trial(first, 1, "failed"), trial(second, 0)])
    assert ending.without_number(asked, folder, strict=False) == 1
    assert said[0].startswith("2 of 3 trials gave no number.")
    assert said[1].startswith("These VPNs have no number in a metric of the ranking: openvpn. ")
    assert f"--out {folder} --retry-failed" in said[1]


@pytest.mark.parametrize("flag", ["no_throughput", "unconfirmed"], ids=["at the lowest rate", "until the deadline"])
@pytest.mark.parametrize(("broke_at_bps", "code"), [([], 0), ([1e6], 1)])
def test_a_search_that_finds_nothing_is_the_result_of_a_slow_vpn_and_the_failure_of_a_broken_one(
    tmp_path: Path, asked: Request, said: list[str], broke_at_bps: list[float], code: int, flag: str
) -> None:
    cell = next(one for one in cells_of(asked) if one.params["measure"] == "udp")
    attempt = {"flags": [flag], "breakdowns_bps": broke_at_bps}
    mine = [trial(cell, 0, "failed").model_copy(update={"attempt": attempt})]
    folder = stored(tmp_path / "run", [*mine, *others(asked, mine)])
    for strict in (False, True):
        assert ending.without_number(asked, folder, strict=strict) == code
    assert said[0].startswith("1 of ")


def test_that_the_one_vpn_is_slow_is_no_run_without_a_measurement(
    tmp_path: Path, asked: Request, said: list[str]
) -> None:
    cell = next(one for one in cells_of(asked) if one.params["measure"] == "udp")
    slow = trial(cell, 0, "failed").model_copy(update={"attempt": {"flags": ["unconfirmed"]}})
    assert ending.without_number(asked, stored(tmp_path / "run", [slow], trimmed=0), strict=True) == 0


def test_what_no_ranking_is_made_of_may_be_without_a_number(tmp_path: Path, asked: Request, said: list[str]) -> None:
    first, *_, last = cells_of(asked)
    assert last.key not in ranked_cells(asked.cells, {vpn.name: vpn for vpn in asked.vpns})
    mine = [trial(first, 0), trial(last, 0, "failed")]
    folder = stored(tmp_path / "run", [*mine, *others(asked, mine)])
    assert ending.without_number(asked, folder, strict=False) == 0
    assert ending.without_number(asked, folder, strict=True) == 1
    assert len(said) == 2


def test_a_vpn_that_the_deadline_left_no_time_for_is_1(tmp_path: Path, asked: Request, said: list[str]) -> None:
    folder = stored(tmp_path / "run", [one for one in others(asked, []) if one.vpn != "wireguard"])
    assert ending.without_number(asked, folder, strict=False) == 1
    assert ending.without_number(asked, folder, strict=True) == 1
    assert said[0] == (
        "There was no time to measure a metric of the ranking for these VPNs: wireguard. "
        f"To measure it: the same command with --out {folder}"
    )


def test_one_ranked_measurement_that_there_was_no_time_for_is_said_and_is_1_where_that_is_strict(
    tmp_path: Path, asked: Request, said: list[str]
) -> None:
    folder = stored(tmp_path / "run", others(asked, []))
    assert ending.without_number(asked, folder, strict=True) == 0
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text("".join(lines[:-1]))
    assert ending.without_number(asked, folder, strict=False) == 0
    assert ending.without_number(asked, folder, strict=True) == 1
    assert said[0] == said[1]
    assert said[0].startswith("There was no time to measure a metric of the ranking for these VPNs: ")


def test_what_no_ranking_is_made_of_may_be_left_out(tmp_path: Path, asked: Request, said: list[str]) -> None:
    """And later repetitions, which a look ends or a deadline has no time for."""
    folder = stored(tmp_path / "run", others(asked, []))
    assert len(asked.cells) > len((folder / "trials.jsonl").read_text().splitlines()), "ciphers, streams"
    assert asked.repetitions > 1
    assert ending.without_number(asked, folder, strict=True) == 0
    assert said == []


def test_without_a_deadline_nothing_was_left_out(tmp_path: Path, asked: Request, said: list[str]) -> None:
    folder = stored(tmp_path / "run", others(asked, [])[:-1], trimmed=0)
    assert ending.without_number(asked, folder, strict=True) == 0
    assert said == []


def test_where_nothing_was_measured_that_is_no_success(tmp_path: Path, asked: Request, said: list[str]) -> None:
    nothing = [trial(cell, 0, "unsupported") for cell in asked.cells if cell.vpn != BASELINE]
    plain = [trial(cell, 0) for cell in asked.cells if cell.vpn == BASELINE]
    folder = stored(tmp_path / "run", [*nothing, *plain])
    for strict in (False, True):
        assert ending.without_number(asked, folder, strict=strict) == ending.NOTHING_MEASURED == 5
    assert said[-1].startswith("Nothing was measured: no VPN that was asked for can run here.")


def test_plain_ip_alone_may_be_asked_for(tmp_path: Path, asked: Request, said: list[str]) -> None:
    only = replace(asked, vpns=[vpn for vpn in asked.vpns if vpn.name == BASELINE])
    folder = stored(tmp_path / "run", [trial(cell, 0) for cell in asked.cells if cell.vpn == BASELINE], trimmed=0)
    assert ending.without_number(only, folder, strict=False) != ending.NOTHING_MEASURED


@pytest.mark.parametrize(
    ("codes", "together"), [((5, 0), 0), ((5, 5), 5), ((5, 1), 1), ((1, 0), 1), ((4, 5), 4), ((5, 130), 130)]
)
def test_of_several_runs_one_that_measured_nothing_is_no_failure(codes: tuple[int, int], together: int) -> None:
    assert ending.together(codes) == together
