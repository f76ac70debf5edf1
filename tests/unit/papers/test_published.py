"""The papers' numbers: every file is what the schema says, every number has its citation; wrong ones are refused."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from runner.catalogue import experiment_names
from runner.cli.commands.list.work import EXTINCT
from runner.data.errors import UsageError
from runner.papers import published
from runner.papers.judges import findings_of
from runner.papers.published import DeviceRow, PublishedPaper, PublishedValue, device_row, devices, names, paper
from runner.papers.tables import paper_effort

EVERY = pytest.mark.parametrize("name", names())


def test_the_papers_of_the_seeds_are_there_and_may_have_others_beside_them() -> None:
    assert {*names()} >= {"clusterip", "devices", "oslv", "router", "thesis"}


@EVERY
def test_each_number_says_where_it_stands(name: str) -> None:
    found = paper(name)
    assert len(found.citation) > 40
    for value in found.values:
        assert value.where
        assert value.says
        assert value.unit
        assert value.metric


@pytest.mark.parametrize(
    ("name", "number", "value"),
    [
        ("thesis", "tcp.none", 939.7),
        ("thesis", "tcp.ipip", 927.9),
        ("thesis", "tcp.ssh_forward", 167.6),
        ("thesis", "udp.ipsec", 152),
        ("thesis", "cov.cipher.openvpn.aes-256-cbc", 8.6),
        ("thesis", "loss.udp.ssh_tun", 0.86),
        ("router", "gcm.a.share", 10.8),
        ("router", "gcm.b.rate", 1.04),
        ("oslv", "effort.tinc", 40),
        ("devices", "wl500g.aes-256-cbc.rate", 4.3),
        ("clusterip", "ha.elapsed", 25),
    ],
)
def test_numbers_as_in_the_papers(name: str, number: str, value: float) -> None:
    assert paper(name)[number] == value


def test_ranges() -> None:
    (handover,) = [value for value in paper("clusterip").values if value.id == "handover"]
    assert (handover.low, handover.high, handover.value) == (1.63, 1.66, None)
    with pytest.raises(UsageError, match="states no single number 'handover'"):
        paper("clusterip")["handover"]


def test_what_only_figures_show_is_named_and_has_no_number() -> None:
    assert any("figure 19" in words for words in paper("thesis").figures_only)
    assert not any(value.metric == "tcp_throughput" and "3des" in value.id for value in paper("thesis").values)


def test_a_paper_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"unknown paper 'wikipedia'.*clusterip, devices"):
        paper("wikipedia")


ROW = {"id": "a", "where": "§1", "metric": "rtt", "unit": "ms", "value": 1.0, "says": "a number"}
GOOD = {
    "id": "made-up",
    "title": "a made-up paper",
    "citation": "Nobody: Nothing measured, nowhere, 2026",
    "hardware": [{"id": "pc", "role": "router", "text": "a PC"}],
    "values": [ROW],
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"citation": ""}, "citation"),
        ({"values": []}, "values"),
        ({"values": [ROW | {"where": ""}]}, "where"),
        ({"values": [ROW, ROW]}, "named twice: a"),
        ({"values": [ROW | {"value": None}]}, "either value, or low below high"),
        ({"values": [ROW | {"low": 2, "high": 1}]}, "either value, or low below high"),
        ({"values": [ROW | {"hardware": "mac"}]}, "unknown hardware: mac"),
        ({"values": [ROW | {"guess": 1}]}, "guess"),
    ],
)
def test_a_row_without_citation_or_number_is_refused(change: dict[str, object], says: str) -> None:
    PublishedPaper.model_validate(GOOD)  # the control
    with pytest.raises(ValidationError, match=says):
        PublishedPaper.model_validate(GOOD | change)


def test_a_broken_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made-up-2.json").write_text(json.dumps(GOOD))
    (tmp_path / "broken.json").write_text(json.dumps(GOOD | {"id": "broken", "values": []}))
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match="says that it is 'made-up'"):
        paper("made-up-2")
    with pytest.raises(UsageError, match=r"broken\.json: values"):
        paper("broken")


def test_devices_are_the_pages_rows_and_agree_with_the_paper() -> None:
    rows = devices()
    assert [row.device for row in rows][:1] == ["TP-Link TL-WDR4900"]
    assert len(rows) == 4
    for row in rows:
        assert "OpenWrt" in row.source
        assert row.aes128_mbit_s == pytest.approx(800 / row.aes128_s, rel=0.02)
        assert row.aes256_mbit_s == pytest.approx(800 / row.aes256_s, rel=0.02)


def test_a_rate_that_its_own_seconds_contradict_tells_both() -> None:
    """Of eight rates on the device page two agree with 800 / seconds."""
    values = {value.id: value for value in paper("devices").values}
    rates = {ident: value for ident, value in values.items() if ident.endswith(".rate")}
    agree = []
    for ident, rate in rates.items():
        seconds = values[ident.removesuffix("rate") + "s"].value
        assert seconds is not None
        by_seconds = f"{800 / seconds:.1f}"
        if by_seconds == f"{rate.value:.1f}":
            agree.append(ident)
        else:
            assert rate.says.endswith(f"the row's seconds give {by_seconds}"), ident
    assert agree == ["wdr4900.aes-128-cbc.rate", "wdr4900.aes-256-cbc.rate"]


def test_a_row_that_is_sent_in_can_be_read_again(tmp_path: Path) -> None:
    numbers = {"aes128_s": 2.5, "aes128_mbit_s": 320.0, "aes256_s": 3.2, "aes256_mbit_s": 250.0}
    sent = DeviceRow(cpu='An "odd", name', mhz=None, device="box", source="vpneval 0.1, run x", **numbers)
    path = tmp_path / "devices.csv"
    path.write_text((published.FOLDER / published.DEVICES).read_text() + device_row(sent) + "\n")
    assert devices(path)[-1] == sent
    path.write_text(path.read_text() + "CPU,1,box,0,1,1,1,somewhere else\n")
    with pytest.raises(UsageError, match="line 7"):
        devices(path)


def test_every_sentence_of_the_conclusions_is_judged_answered_or_left_out_with_the_reason() -> None:
    judged = {f"{name}/{one.id}": one for name in experiment_names() for one in findings_of(name)}
    for name in names():
        found = paper(name)
        assert found.conclusion_sections, "the model holds the list to these, sentence by sentence"
        for one in found.conclusions:
            assert {*one.by} <= {*judged}, one
            assert (one.fate == "answered") == any(judged[finding].question for finding in one.by), one


def test_every_finding_of_a_section_that_concludes_is_in_the_list() -> None:
    for experiment in experiment_names():
        for one in findings_of(experiment):
            stated = paper(one.paper)
            listed = {finding for sentence in stated.conclusions for finding in sentence.by}
            sections = {place.strip() for place in one.where.split(";")}
            ours = one.found.startswith("our question: ")
            assert ours or f"{experiment}/{one.id}" in listed or not sections & {*stated.conclusion_sections}, one.id


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sentence": 2}, "each once and in order"),
        ({"where": "§8"}, "each once and in order"),
        ({"fate": "judged"}, "give by, or why"),
        ({"by": ["thesis/forward"]}, "give by, or why"),
        ({"why": ""}, "give by, or why"),
        ({"fate": "forgotten"}, "judged"),
    ],
)
def test_a_list_of_conclusions_that_lacks_something_is_refused(change: dict[str, object], says: str) -> None:
    row = {"where": "§7", "sentence": 1, "says": "a claim", "fate": "left out", "why": "no claim"}
    PublishedPaper.model_validate(GOOD | {"conclusion_sections": {"§7": 1}, "conclusions": [row]})  # the control
    with pytest.raises(ValidationError, match=says):
        PublishedPaper.model_validate(GOOD | {"conclusion_sections": {"§7": 1}, "conclusions": [row | change]})
    with pytest.raises(ValidationError, match="each once and in order"):
        PublishedPaper.model_validate(GOOD | {"conclusion_sections": {"§7": 2}, "conclusions": [row]})


def value(name: str, number: str) -> PublishedValue:
    (found,) = [one for one in paper(name).values if one.id == number]
    return found


def test_numbers_carry_what_the_text_states_of_them_and_no_more() -> None:
    for number in ("example.udp.received", "example.udp.offered", "example.udp.loss"):
        assert value("thesis", number).levels == {"transport": "udp"}, "§3.4 states neither cipher nor datagram"
    assert value("thesis", "udp.buffer.client").value == 9.0
    assert value("thesis", "udp.buffer.server").value == 192
    assert value("thesis", "lookups.ipsec").value == 2
    assert (value("oslv", "sites").low, value("oslv", "sites").high) == (10, 50)
    assert (value("oslv", "overhead.block").low, value("oslv", "overhead.block").high) == (8, 16)
    assert value("devices", "netscreen5gt").qualifier == "at least"
    assert value("devices", "wr703n.aes-128-cbc.rate").value == 16.5
    assert "16.8" in value("devices", "wr703n.aes-128-cbc.rate").says
    assert all("packet_bytes" not in one.levels or one.id == "fragmentation.step" for one in paper("router").values)
    assert all(one.value != 2.1 for one in paper("clusterip").values), "that is strongSwan's default, not the paper's"


def test_a_sum_that_does_not_follow_is_told_with_what_does() -> None:
    printed, formula, columns = "480", "380", "360"
    htun = value("oslv", "effort.htun")
    assert htun.value == float(printed)
    assert htun.says.endswith(f"that formula gives {formula}, and the row's own columns {columns}")
    (extinct,) = [system for system in EXTINCT["systems"] if system["name"] == "HTun"]
    assert extinct["effort"] == f"N(4N-2) [{printed}] (sic: {formula} by the formula, {columns} by its columns)"
    assert paper_effort("Htun")["recomputed"]["10"] == int(columns)


def test_a_range_is_no_single_number_and_the_other_way_round() -> None:
    assert paper("clusterip").ends("handover.limited") == (1.9, 2.3)
    with pytest.raises(UsageError, match=r"states no range 'ha\.elapsed'"):
        paper("clusterip").ends("ha.elapsed")
