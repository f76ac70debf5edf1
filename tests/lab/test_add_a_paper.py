"""docs/add-a-paper.md is true: its paper, judged by a run of the real daemons, with the commands that it says."""

import re
import shlex
from pathlib import Path

import pytest

from runner.catalogue import load_run
from runner.data.trials import Run, Trial
from runner.lab.software.image import Image
from runner.papers.findings import DECIDED, judge
from runner.papers.judges import findings_of
from tests.lab.test_add_an_instrument import ROOT, follow

DOCUMENT = (ROOT / "docs" / "add-a-paper.md").read_text()


def test_the_page_adds_a_paper_and_ends_in_a_verdict(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wireguard").mkdir()
    for file, kind in (("paper.json", "json"), ("findings.toml", "toml")):
        block = re.search(rf"`wireguard/{re.escape(file)}`, whole.*?^```{kind}\n(.*?)^```$", DOCUMENT, re.M | re.S)
        assert block
        (tmp_path / "wireguard" / file).write_text(block[1])
    commands = re.findall(r"^    (vpneval .+?)(?: +# .*)?$", DOCUMENT, re.MULTILINE)
    commands = [command.replace("/tmp/wireguard", "run") for command in commands]
    assert [shlex.split(command)[1] for command in commands] == ["papers", "run", "papers", "report"]
    before, run, page, report = commands
    asked, _ = run.split(" --out ")
    assert f"`{asked}`" in follow(before, tmp_path), "the page names the command that the reader is told"
    follow(f"{run} --reps 1", tmp_path)
    assert "transport/wireguard.openvpn" in follow(page, tmp_path)
    assert "WireGuard is faster than OpenVPN: " in follow(report, tmp_path)
    monkeypatch.chdir(tmp_path)
    verdicts = {one.id: _verdict(one.id, *load_run(tmp_path / "run")) for one in findings_of("transport", NAMES)}
    assert verdicts["wireguard.openvpn"] in DECIDED
    assert verdicts["wireguard.ipsec"] in (*DECIDED, "undecided"), "the two are closer, and one repetition is short"


NAMES = ["./wireguard"]


def _verdict(name: str, run: Run, trials: list[Trial]) -> str:
    """On these trials, however busy the machine of the test is."""
    (finding,) = [one for one in findings_of("transport", NAMES) if one.id == name]
    return judge(finding, run, trials).verdict
