"""docs/add-a-paper.md is true: its paper is valid, its row says yes, no, and undecided, and a wrong row says what is
wrong."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runner.data.errors import UsageError
from runner.data.trials import Trial
from runner.papers import published
from runner.papers.findings import Finding, judge
from runner.papers.judges import findings_of
from runner.papers.rows import rows_of
from tests.unit.synthetic import CBC, TCP, make_run, make_trial

PAGE = (Path(__file__).parents[3] / "docs" / "add-a-paper.md").read_text()
(PAPER,), (ROW, PAIRS) = (re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S) for kind in ("json", "toml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that has the page's paper alone, with its row."""
    (tmp_path / "example.json").write_text(PAPER)
    (tmp_path / "example.toml").write_text(ROW)
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """What was read of the papers is read again."""
    published.paper.cache_clear()
    rows_of.cache_clear()


def trials(vpn: str, rates: Sequence[float], **levels: str) -> list[Trial]:
    return [make_trial(vpn, CBC | TCP | levels, block, {"tcp_throughput": rate}) for block, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("openvpn", "verdict"),
    [
        ((1.5e8, 1.51e8, 1.49e8), "reproduced"),
        ((0.7e8, 0.71e8, 0.69e8), "not reproduced"),
        ((0.7e8, 1.6e8, 1e8), "undecided"),
    ],
)
def test_the_pages_row_decides(folder: Path, openvpn: Sequence[float], verdict: str) -> None:
    (finding,) = findings_of("transport")
    assert [f"transport/{finding.id}"] == published.paper("example").conclusions[0].by
    run = make_run(("openvpn", "ssh_tun"))
    found = judge(finding, run, [*trials("openvpn", openvpn), *trials("ssh_tun", (1e8,) * 3)])
    assert found.verdict == verdict
    assert found.published == 1.5
    assert isinstance(finding, Finding)
    assert finding.run
    assert finding.run.experiments == ("transport",)


def test_each_pair_is_a_part(folder: Path) -> None:
    pairs = ROW.replace('a = "openvpn"\nb = "ssh_tun"\n', PAIRS)
    (folder / "example.toml").write_text(pairs)
    (finding,) = findings_of("transport")
    rates = {"aes-128-cbc": (1e8, 1.01e8, 0.99e8), "3des-cbc": (3e7,) * 3, "blowfish-128-cbc": (2e8,) * 3}
    measured = [trial for cipher, own in rates.items() for trial in trials("openvpn", own, cipher=cipher)]
    found = judge(finding, make_run(("openvpn",)), measured)
    assert (found.verdict, found.part, found.systems) == ("not reproduced", "blowfish-128-cbc", ["openvpn"])


WRONG = {  # what is written instead -> what its error has to name
    'kind = "ratio"': ('kind = "ration"', ["example.toml", "example.faster", "ration", "'ratio', 'value', 'function'"]),
    'bound = "more"': ('bound = "mroe"', ["mroe", "more, less, close 0.1"]),
    'a = "openvpn"': ('a = "openvpn, tcp"', ["openvpn, tcp", "a VPN and its levels"]),
    'b = "ssh_tun"': ("", ["a and b, or pairs"]),
    'published = "tcp.ratio"': ('published = "tcp.ration"', ["example.json", "tcp.ration"]),
    "run = { vpns": ("run = { vpsn", ["run.vpsn"]),
    'run = { vpns = "openvpn,ssh_tun" }': ('run = "mine"', ["mine", "[runs] has none"]),
    'where = "§4"': ("", ["where", "required"]),
    "is {} times": ("is higher, times", ["one {} for the number"]),
    'metric = "tcp_throughput"': ('metrics = "tcp_throughput"', ["metric", "metrics"]),
    'b = "ssh_tun"\n': ('b = "{vpn}"\n', ["vpn", "braces"]),
    "[[finding]]": ("[finding", ["no TOML"]),
    'id = "example.faster"\n': ('id = ""\n', ["id"]),
}


@pytest.mark.parametrize("right", WRONG)
def test_a_wrong_row_says_where_and_what_is_valid(folder: Path, right: str) -> None:
    wrong, named = WRONG[right]
    assert right in ROW
    (folder / "example.toml").write_text(ROW.replace(right, wrong))
    with pytest.raises(UsageError) as refused:
        findings_of("transport")
    for words in ["example", *named]:
        assert words in str(refused.value)


def test_a_function_is_looked_up_as_the_row_is_read(folder: Path) -> None:
    head, _, _ = ROW.partition("kind =")
    for experiment, more, named in (
        ("security", 'function = "all_fuor"', ["all_fuor", "all_four"]),
        ("security", 'function = "all_four"\ngiven = { vpns = "gre" }', ["all_four", "vpns"]),
        ("transport", 'function = "highest"', ["judges.transport"]),
    ):
        row = head.replace("transport", experiment) + f'kind = "function"\n{more}\n'
        (folder / "example.toml").write_text(row)
        with pytest.raises(UsageError) as refused:
            findings_of(experiment)
        for words in named:
            assert words in str(refused.value)


def test_a_finding_has_a_name_of_its_own(folder: Path) -> None:
    (folder / "example.toml").write_text(ROW * 2)
    with pytest.raises(UsageError, match=r"named twice: transport/example\.faster"):
        findings_of("transport")
