"""docs/add-a-paper.md is true: its paper is valid, and its judge says yes, no, and undecided."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.data.trials import Trial
from runner.papers import published
from runner.papers.findings import Finding, judge
from tests.unit.synthetic import CBC, TCP, make_run, make_trial

PAGE = (Path(__file__).parents[3] / "docs" / "add-a-paper.md").read_text()


@pytest.fixture
def finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """The page's, with its paper in a folder of its own."""
    (paper,), (code,) = (re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S) for kind in ("json", "python"))
    (tmp_path / "example.json").write_text(paper)
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    published.paper.cache_clear()
    made: dict[str, Any] = {}
    exec(compile(code, "transport.py", "exec"), made)  # noqa: S102
    (found,) = made["FINDINGS"]
    assert [f"transport/{found.id}"] == published.paper("example").conclusions[0].by
    assert isinstance(found, Finding)
    return found


@pytest.mark.parametrize(
    ("openvpn", "verdict"),
    [
        ((1.5e8, 1.51e8, 1.49e8), "reproduced"),
        ((0.7e8, 0.71e8, 0.69e8), "not reproduced"),
        ((0.7e8, 1.6e8, 1e8), "undecided"),
    ],
)
def test_the_pages_judge_decides(finding: Finding, openvpn: Sequence[float], verdict: str) -> None:
    def trials(vpn: str, rates: Sequence[float]) -> list[Trial]:
        return [make_trial(vpn, CBC | TCP, block, {"tcp_throughput": rate}) for block, rate in enumerate(rates)]

    found = judge(
        finding, make_run(("openvpn", "ssh_tun")), [*trials("openvpn", openvpn), *trials("ssh_tun", (1e8,) * 3)]
    )
    assert found.verdict == verdict
    assert found.published == 1.5
