"""docs/add-a-paper.md is true: its paper is valid in a folder of its own, its rows say yes, no, and undecided, and what
is wrong in one is named. A folder is data, whoever made it."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from questions.papers.page import paper_text
from runner.cli.main import main
from runner.cli.reading import report_of
from runner.data.errors import UsageError
from runner.data.trials import Trial
from runner.papers import judges, published
from runner.papers.findings import judge
from runner.papers.judges import add_paper, every_finding, findings_of
from runner.papers.rows import rows_of
from tests.unit.synthetic import CBC, TCP, make_run, make_trial

PAGE = (Path(__file__).parents[3] / "docs" / "add-a-paper.md").read_text()
(PAPER,), (ROWS, PAIRS) = (re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S) for kind in ("json", "toml"))
NAME = "./wireguard"
CHACHA = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}
VPNS = ("wireguard_go", "openvpn", "ipsec_user")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's folder, in the directory that commands are run in."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "wireguard"
    made.mkdir()
    (made / "paper.json").write_text(PAPER)
    (made / "findings.toml").write_text(ROWS)
    forget()
    yield made
    forget()


def forget() -> None:
    """What was read of papers is read again."""
    published.paper.cache_clear()
    rows_of.cache_clear()
    judges._ADDED.clear()


def trials(vpn: str, rates: Sequence[float], **levels: str) -> list[Trial]:
    return [make_trial(vpn, CBC | TCP | levels, block, {"tcp_throughput": rate}) for block, rate in enumerate(rates)]


def measured(openvpn: Sequence[float]) -> list[Trial]:
    """A run of the page's command, and what such a run has beside the cells that the rows name."""
    return [
        *trials("wireguard_go", (4e8, 4.1e8, 3.9e8), **CHACHA),
        *trials("wireguard_go", (9e8, 9.1e8, 8.9e8), **CHACHA | {"direction": "reverse"}),
        *trials("wireguard_go", (9e8, 9.1e8, 8.9e8), **CHACHA | {"streams": "4"}),
        *trials("openvpn", openvpn, cipher="aes-256-cbc"),
        *trials("ipsec_user", (3e8, 3.1e8, 2.9e8), **CHACHA),
    ]


@pytest.mark.parametrize(
    ("openvpn", "verdict"),
    [
        ((1e8, 1.01e8, 0.99e8), "reproduced"),
        ((6e8, 6.1e8, 5.9e8), "not reproduced"),
        ((1e8, 9e8, 4e8), "undecided"),
    ],
)
def test_the_pages_rows_decide(folder: Path, openvpn: Sequence[float], verdict: str) -> None:
    faster, than_ipsec = findings_of("transport", [NAME])
    found = judge(faster, make_run(VPNS), measured(openvpn))
    assert found.verdict == verdict
    assert found.published == pytest.approx(1011 / 258)
    assert judge(than_ipsec, make_run(VPNS), measured(openvpn)).verdict == "reproduced"


def test_levels_that_leave_several_cells_are_named(folder: Path) -> None:
    (folder / "findings.toml").write_text(ROWS.replace("openvpn cipher=aes-256-cbc", "openvpn"))
    first, _ = findings_of("transport", [NAME])
    several = [*measured((1e8,) * 3), *trials("openvpn", (1e8,) * 3, cipher="3des-cbc")]
    found = judge(first, make_run(VPNS), several)
    assert found.verdict == "unmeasured"
    assert "cipher=3des-cbc, cipher=aes-256-cbc" in found.reason
    assert "measure" not in found.reason


def test_each_pair_is_a_part(folder: Path) -> None:
    row = 'b = "openvpn cipher=aes-256-cbc"\n'
    (folder / "findings.toml").write_text(
        ROWS.replace(row, PAIRS)
        .replace('a = "wireguard_go"\n', "")
        .replace('b = "ipsec', 'a = "wireguard_go"\nb = "ipsec')
    )
    first, _ = findings_of("transport", [NAME])
    rates = {"aes-128-cbc": (1e8, 1.01e8, 0.99e8), "3des-cbc": (3e7,) * 3, "blowfish-128-cbc": (2e8,) * 3}
    of_ciphers = [trial for cipher, own in rates.items() for trial in trials("openvpn", own, cipher=cipher)]
    found = judge(first, make_run(("openvpn",)), of_ciphers)
    assert (found.part, found.systems) == ("blowfish-128-cbc", ["openvpn"])


def test_the_papers_of_the_tree_stay_as_they_are(folder: Path) -> None:
    before = [*published.names()], [one.id for one in every_finding()]
    add_paper(NAME)
    assert ([*published.names()], [one.id for one in every_finding()]) == before
    assert {one.paper for one in every_finding([NAME])} == {NAME}


def test_its_page_has_its_own_conclusions_alone_and_says_what_decides_them(folder: Path) -> None:
    add_paper(NAME)
    page = paper_text(NAME, [], lambda _: (6, 60.0))
    (line,) = [line for line in page.splitlines() if line.startswith("| *")]
    assert "(wireguard, §VII, last paragraph, 1)" in line
    assert "`vpneval run transport --vpn wireguard_go,openvpn,ipsec_user" in line


def test_a_conclusion_may_name_a_finding_of_the_tree(folder: Path) -> None:
    known = next(iter(every_finding()))
    (folder / "paper.json").write_text(PAPER.replace("transport/wireguard.ipsec", f"{known.experiment}/{known.id}"))
    add_paper(NAME)
    assert known in every_finding([NAME])


def test_the_commands_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["papers", *words])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    code, listed = told()
    assert code == 0
    assert all(name in listed for name in published.names())
    assert told(NAME)[0] == 0
    code, page = told("thesis")
    assert code == 0
    assert "(thesis, " in page
    assert "(oslv, " not in page
    code, refused = told("wireguard")
    assert code == 2
    assert "./mine" in refused, "how a folder is named"


UNKNOWN = {  # what is written instead -> the kind and the name of what nobody has
    'metric = "tcp_throughput"': ('metric = "pps"', "unknown metric 'pps'"),
    "openvpn cipher": ("opnvpn cipher", "unknown VPN 'opnvpn'; did you mean openvpn"),
    "cipher=aes-256-cbc": ("ciper=aes-256-cbc", "unknown factor 'ciper'; did you mean cipher"),
    'levels = "measure=tcp"': ('levels = "measur=tcp"', "unknown factor 'measur'"),
}


@pytest.mark.parametrize("right", UNKNOWN)
def test_a_row_about_what_nobody_has_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], right: str) -> None:
    wrong, told = UNKNOWN[right]
    (folder / "findings.toml").write_text(ROWS.replace(right, wrong))
    with pytest.raises(SystemExit) as ended:
        main(["papers", NAME])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_what_a_run_has_of_the_users_own_is_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ROWS.replace("openvpn cipher=aes-256-cbc", "toy cipher=aes-256-cbc")
    (folder / "findings.toml").write_text(rows)
    own = folder.parent / "run"
    own.mkdir()
    (own / "run.json").write_text(make_run(("wireguard_go", "toy", "ipsec_user")).model_dump_json())
    (own / "trials.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in trials("toy", (1e8,) * 3)))
    with pytest.raises(SystemExit) as ended:
        main(["papers", NAME, str(own)])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err


def test_the_trees_papers_are_about_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    for name in published.names():
        with pytest.raises(SystemExit) as ended:
            main(["papers", name])
        assert ended.value.code == 0, capsys.readouterr().err


def test_a_run_is_reported_by_it_alone(folder: Path) -> None:
    shipped = Path(__file__).parents[3] / "results" / "papers" / "domains"
    report = report_of([shipped], "", paper=NAME)
    (said,) = [said for said in report.lead() if "WireGuard" in said.line]
    assert "transport" in said.line, "what it would need"
    assert "findings" not in report.sections


WRONG = {  # what is written instead -> what its error has to name
    'kind = "ratio"': ('kind = "ration"', ["findings.toml", "wireguard.openvpn", "ration", "'ratio', 'value'"]),
    'bound = "more"': ('bound = "mroe"', ["mroe", "more, less, close 0.1"]),
    'a = "wireguard_go"': ('a = "wireguard_go, tcp"', ["wireguard_go, tcp", "a VPN and its levels"]),
    'b = "openvpn cipher=aes-256-cbc"\n': ("", ["a and b, or pairs"]),
    '"tcp.openvpn"]': ('"tcp.opnvpn"]', ["tcp.opnvpn"]),
    "tcp = { vpns": ("tcp = { vpsn", ["run.vpsn"]),
    'run = "tcp"': ('run = "mine"', ["mine", "[runs] has tcp"]),
    'where = "§VII"\n': ("", ["where", "required"]),
    "is {} times that of OpenVPN": ("is higher", ["one {} for the number"]),
    'metric = "tcp_throughput"': ('metrics = "tcp_throughput"', ["metric"]),
    "openvpn cipher=aes-256-cbc": ("{vpn}", ["vpn", "braces"]),
    "[every.transport]": ("[every.transport", ["no TOML"]),
    'id = "wireguard.openvpn"\n': ('id = ""\n', ["id"]),
    'id = "wireguard.ipsec"': ('id = "wireguard.openvpn"', ["named twice: transport/wireguard.openvpn"]),
}


@pytest.mark.parametrize("right", WRONG)
def test_a_wrong_row_says_where_and_what_is_valid(folder: Path, right: str) -> None:
    wrong, named = WRONG[right]
    assert right in ROWS
    (folder / "findings.toml").write_text(ROWS.replace(right, wrong))
    with pytest.raises(UsageError) as refused:
        add_paper(NAME)
    for words in ["wireguard", *named]:
        assert words in str(refused.value)


HOSTILE = {  # what somebody sends -> what of it is refused
    'kind = "ratio"': ('kind = "function"\nfunction = "all_four"', "no code"),
    'vpns = "wireguard_go,openvpn': ('vpns = "./evil.py,openvpn', "evil.py"),
    'vpns = "wireguard_go,': ('vpns = "evil.py,', "evil.py"),
    "tcp = {": ('tcp = { lab = "ssh:theirs.toml",', "lab"),
    "tcp = { vpns": ('tcp = { instruments = ["./evil.py"], vpns', "instruments"),
    'found = "WireGuard is faster than OpenVPN"': ('found = "\\u001b[2J"', "control characters"),
    'bound = "more"': ('bound = "within 0"', "bound"),
    'run = "tcp"': ('run = "tcp"\neach = { x = [' + '"a",' * 40 + "], y = [" + '"b",' * 40 + "] }", "1600 pairs"),
    'levels = "measure=tcp"': (f'levels = "measure={"x" * 5000}"', "longer than"),
    'id = "wireguard.ipsec"': ('id = "../../ipsec"', "no name"),
    "[[finding]]": ("finding = 1\n[[x]]", "findings.toml"),
}


@pytest.mark.parametrize("right", HOSTILE)
def test_a_folder_is_data_and_bounded(folder: Path, right: str) -> None:
    wrong, named = HOSTILE[right]
    assert right in ROWS
    (folder / "findings.toml").write_text(ROWS.replace(right, wrong))
    with pytest.raises(UsageError, match=re.escape(named)):
        add_paper(NAME)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"id": "../x"}, "no name"),
        ({"title": "a\nb"}, "control characters"),
        ({"values": []}, "values"),
        ({"conclusion_sections": {"§1": 10**9}}, "less than or equal"),
        ({"citation": "<b>" + "x" * 5000}, "at most"),
    ],
)
def test_its_numbers_are_data_and_bounded(folder: Path, change: dict[str, object], named: str) -> None:
    (folder / "paper.json").write_text(json.dumps(json.loads(PAPER) | change))
    with pytest.raises(UsageError, match=named):
        add_paper(NAME)


def test_what_is_no_file_or_too_large_is_refused(folder: Path) -> None:
    (folder / "findings.toml").unlink()
    os.mkfifo(folder / "findings.toml")
    with pytest.raises(UsageError, match="FIFO"):
        add_paper(NAME)
    forget()
    (folder / "findings.toml").unlink()
    with (folder / "paper.json").open("r+b") as file:
        file.truncate(published.MOST_BYTES + 1)
    with pytest.raises(UsageError, match="bytes"):
        add_paper(NAME)
    forget()
    (folder / "paper.json").unlink()
    with pytest.raises(UsageError, match=r"paper\.json"):
        add_paper(NAME)


def test_its_words_are_no_markup_of_the_page(folder: Path) -> None:
    (folder / "paper.json").write_text(PAPER.replace("WireGuard is faster than OpenVPN and", "a | [b](c) <script>"))
    add_paper(NAME)
    page = paper_text(NAME, [], lambda _: None)
    assert r"A \| \[b\](c) &lt;script&gt;" in page


def test_a_conclusion_by_no_finding_says_which_there_are(folder: Path) -> None:
    (folder / "paper.json").write_text(PAPER.replace("transport/wireguard.ipsec", "transport/wireguard.ipsce"))
    with pytest.raises(UsageError, match=r"'transport/wireguard\.ipsce'.*transport/wireguard\.ipsec"):
        add_paper(NAME)


def test_a_function_is_looked_up_as_the_row_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    (tmp_path / "wireguard.json").write_text(PAPER)
    row = '[[finding]]\nid = "one"\nexperiment = "{}"\nwhere = "§1"\nfound = "a claim"\ncounts = "it is {{}}"\n'
    for experiment, more, named in (
        ("security", 'function = "all_fuor"', ["all_fuor", "all_four"]),
        ("security", 'function = "all_four"\ngiven = { vpns = "gre" }', ["all_four", "vpns"]),
        ("transport", 'function = "highest"', ["judges.transport"]),
    ):
        forget()
        (tmp_path / "wireguard.toml").write_text(row.format(experiment) + f'kind = "function"\n{more}\n')
        with pytest.raises(UsageError) as refused:
            rows_of("wireguard")
        for words in named:
            assert words in str(refused.value)
    forget()
