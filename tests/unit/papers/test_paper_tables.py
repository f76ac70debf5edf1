"""The OSLV paper's tables beside what was counted and probed, and the meshes: the same in every rendering."""

from collections.abc import Mapping
from typing import Any

import pytest

from questions.papers import Judged
from questions.papers.tables import PaperTable, paper_tables
from runner.catalogue import instruments, load_vpn
from runner.data.strength import PER_FAILURE, SCALE
from runner.data.trials import Cell, ExperimentRecord, Trial
from runner.instruments.operator.counts import operations
from runner.instruments.operator.mesh import Size
from runner.instruments.operator.mesh import results as mesh_results
from runner.instruments.result import Measured
from runner.instruments.security.run import rate, results
from runner.instruments.security.vantage import ProbeOutcome
from runner.papers.cells import PLAIN
from runner.papers.published import paper
from runner.papers.tables import SIZES, paper_effort
from runner.report.mesh import mesh_points, rows
from runner.report.model import Report
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Samples
from runner.report.plots.vega import svg
from runner.sweep.records import measurements_of
from tests.unit.findings_worlds import made
from tests.unit.reports import everywhere
from tests.unit.synthetic import make_run, make_trial
from tests.unit.whole_report import build

ALL = ("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication", "fail_closed")


def trial_with(vpn: str, traffic: str, measured: Measured, block: int = 1, **levels: str) -> Trial:
    made = make_trial(vpn, {**load_vpn(vpn).recommended, **levels, "measure": traffic}, block, {})
    found = {
        "measurements": measurements_of(measured, instruments()[traffic]),
        "attempt": measured.attempt,
        "experiments": [traffic],
    }
    return made.model_copy(update=found)


def counted(vpn: str) -> Trial:
    return trial_with(vpn, "operations", operations(load_vpn(vpn), load_vpn(vpn).recommended))


def probed(vpn: str, block: int, **verdicts: str) -> Trial:
    outcomes = {
        name: ProbeOutcome(verdicts.get(name, "pass"), f"{name} seen", "control")  # type: ignore[arg-type]
        for name in ALL
    }
    measured = results(outcomes)
    rate(measured, load_vpn(vpn), load_vpn(vpn).recommended, outcomes)
    return trial_with(vpn, "security", measured, block)


def meshed(vpn: str, sizes: tuple[int, ...], block: int = 1) -> Trial:
    points = [Size(n, 0.5 * n, 10**6 * n * (n - 1), 0.01 * n * (n - 1), 100 * n, 10 * n) for n in sizes]
    beside = {"joining": {str(n): 7 * n for n in SIZES}, "paper": {"paper": paper_effort("Tinc")}}
    return trial_with(vpn, "mesh", mesh_results(points, SIZES, "no room", beside), block)


def tables_in(report: Report) -> list[PaperTable]:
    return [table for one in report.judged if isinstance(one.judgement, Judged) for table in one.judgement.tables]


def report_of(trials: list[Trial]) -> Report:
    metrics = {
        "security": [*ALL, "declared_strength"],
        "operations": ["setup_files", "scaling_effort"],
        "mesh": ["mesh_time"],
    }
    records = [
        ExperimentRecord(
            name=name,
            question="?",
            method="so",
            source="",
            factors={},
            metrics=metrics[name],
            cells=[Cell(vpn=t.vpn, params=t.params) for t in trials if name in t.experiments],
        )
        for name in metrics
    ]
    return build(make_run(tuple(dict.fromkeys(t.vpn for t in trials)), tuple(records)), trials)


def cells_of(report: Report, key: str) -> dict[str, Mapping[str, str]]:
    (table,) = [table for table in tables_in(report) if table.key == key]
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def test_each_table_stands_beside_the_paper() -> None:
    report = report_of([counted("openvpn"), counted("tinc"), probed("openvpn", 1), meshed("tinc", (2, 3, 5))])
    keys = [table.key for table in tables_in(report)]
    assert keys == [f"table-{n}" for n in ("1", "2", "3", "4", "4-declared", "4-scale", "5", "5-mesh")]
    assert cells_of(report, "table-1")["openvpn"]["paper's asterisks"] == "**"
    assert cells_of(report, "table-2")["tinc"]["paper's difficulty"] == "Low"
    assert "Supports a built-in routing daemon" in cells_of(report, "table-3")["tinc"]["paper's routing"]
    assert cells_of(report, "table-4")["openvpn"]["paper"] == "✓ ✓ ✓ ✓"
    assert cells_of(report, "table-5")["tinc"]["paper: files + routes + keys"] == "1 + 1 + 2"
    assert all(len(row) == len(table.head) for table in tables_in(report) for row in table.rows)


def test_a_wrong_sum_is_marked_beside_its_recomputation() -> None:
    counts = counted("pptp")
    printed = cells_of(report_of([counts]), "table-5")["pptp"]["printed; recomputed at 10"]
    assert printed == "480 [sic]; 460"


def test_verdicts_are_counted_out_and_what_failed_is_said_in_every_rendering() -> None:
    trials = [probed("openvpn", 1), probed("openvpn", 2, anti_replay="fail", fail_closed="inconclusive")]
    report = report_of(trials)
    row = cells_of(report, "table-4")["openvpn"]
    assert (row["replay"], row["tunnel down"], row["tampering"]) == ("FAIL 1, pass 1", "? 1, pass 1", "pass")
    assert row["lengths"] == "–", "not probed"
    for name, said in everywhere(report).items():
        assert "Anti-replay: anti_replay seen" in said, name
        assert "Fails closed: inconclusive: fail_closed seen" in said, name


def test_the_scale_is_printed_with_what_is_rated_by_it() -> None:
    report = report_of([probed("openvpn", 1, anti_replay="fail")])
    rated = cells_of(report, "table-4-declared")["openvpn"]
    assert int(rated["value"]) == int(rated["declared"]) - PER_FAILURE < 0
    assert int(rated["bits"]) >= 128
    for name, said in everywhere(report).items():
        assert "The scale of what is declared" in said, name
        if name == "term":  # its columns fold
            continue
        assert all(what.split(":")[0].split("(")[0].strip() in said for _, what, _ in SCALE), name
    assert [table.key for table in tables_in(report_of([probed("none", 1)]))] == ["table-4"], "nothing is declared"


def test_network_performance_is_normalised_as_in_the_papers_figure() -> None:
    run, trials = made("oslv")
    (figure,) = [table for table in paper_tables(run, trials) if table.key == "figure-3"]
    found = {row[0]: dict(zip(figure.head, row, strict=True)) for row in figure.rows}
    assert set(found) == {vpn for vpn, record in run.vpns.items() if not record.reference}
    lowest = found["ipsec"]
    assert lowest["512 B packets"].startswith("1.00 ("), "80 of 80 bytes"
    assert found["ssh_tun"]["512 B packets"].startswith("2.00 (")
    assert lowest["use of the link"].startswith("44.0 (")
    assert lowest["latency ÷ plain IP"].startswith("0.80 ("), "0.4 ms of 0.5 ms"
    assert found["openvpn_tcp"]["carried by"] == "tcp"
    ranks = {vpn: float(row["mean rank"]) for vpn, row in found.items() if row["mean rank"] != "–"}
    assert min(ranks, key=ranks.__getitem__) == "ipsec"
    assert "ssh_forward" not in ranks, "it has no jitter"
    assert sum(ranks.values()) == pytest.approx(sum(range(1, len(ranks) + 1)), abs=0.005 * len(ranks)), "as printed"


def test_other_experiments_have_no_such_section() -> None:
    assert paper_tables(make_run(("openvpn",)), [make_trial("openvpn", {"measure": "tcp"}, 1, {})]) == []


def test_a_mesh_that_did_not_come_up_is_a_prediction_and_says_so() -> None:
    points = mesh_points([meshed("tinc", (2, 3, 5))])
    assert [(point.sites, point.predicted) for point in points] == [
        (2, False),
        (3, False),
        (5, False),
        (10, True),
        (20, True),
    ]
    by_sites = {point.sites: point for point in points}
    assert by_sites[20].up_s == pytest.approx(10.0, abs=0.01), "on the line through the others"
    assert by_sites[20].memory_bytes == pytest.approx(2e6, rel=0.01), "of a tunnel"
    assert by_sites[20].config_lines == pytest.approx(200, rel=0.01), "of a site"
    assert by_sites[10].effort_of_the_paper == 40
    assert [row[2].startswith("≈") for row in rows(points)] == [False, False, False, True, True]


def test_a_size_that_any_repetition_brought_up_is_measured() -> None:
    points = mesh_points([meshed("tinc", (2, 3, 5)), meshed("tinc", SIZES, block=2)])
    assert {point.sites for point in points if not point.predicted} == set(SIZES)


def test_the_meshes_are_drawn_against_the_number_of_sites() -> None:
    report = report_of([meshed("tinc", (2, 3, 5))])
    (experiment,) = [one for one in report.experiments if one.name == "mesh"]
    plots = {plot.key: plot for plot in plots_of(report, experiment, Samples(report)) if "by-sites" in plot.key}
    assert len(plots) == 6
    time, effort = plots["mesh-by-sites-up-s"], plots["mesh-by-sites-effort"]
    paper, _, solid, hollow = (layer["data"]["values"] for layer in time.spec["layer"])
    assert ([one["sites"] for one in solid], [one["sites"] for one in hollow]) == ([2, 3, 5], [10, 20])
    assert paper == [], "the paper has no curve of time"
    of_paper: list[dict[str, Any]] = effort.spec["layer"][0]["data"]["values"]
    assert [(one["sites"], one["value"]) for one in of_paper] == [(2, 8), (3, 12), (5, 20), (10, 40), (20, 80)]
    assert "Dashed: the paper" in str(effort.spec["title"])
    assert "<svg" in svg(time.spec)


def searched_at(vpn: str, block: int, *losses: tuple[float, float], metric: str = "udp_throughput") -> Trial:
    """A UDP search that found 100 Mbit/s; ``losses``: (offered rate in Mbit/s, loss ratio) of its trials."""
    levels = {"measure": "udp", "cipher": "aes-128-cbc", "payload_bytes": "1470"}
    trial = make_trial(vpn, levels, block, {metric: 100e6}, experiments=("thesis",))
    trials = [{"offered_rate_bps": rate * 1e6, "loss_ratio": loss, "duration_s": 1.0} for rate, loss in losses]
    trial.measurements[0].detail["trials"] = trials
    return trial


def test_loss_at_the_udp_throughput_is_the_thesis_table_3() -> None:
    trials = [
        searched_at("ipsec", 1, (100, 0.002), (100.4, 0.004), (103, 0.5), (90, 0.0)),
        searched_at("ipsec", 2, (99.6, 0.006)),
        searched_at("wireguard_go", 1, (100, 0.01)),
        searched_at("none", 1, (100, 0.0)),
    ]
    (table,) = paper_tables(make_run(("none", "ipsec", "wireguard_go")), trials)
    assert (table.key, "192 KB" in table.about) == ("thesis-3", True)
    assert table.rows == [
        ["ipsec", "aes-128-cbc", "–", "100.0", "3", "0.40 ± 0.20", "–", "0.45 ± 0.49"],
        ["wireguard_go", "aes-128-cbc", "–", "100.0", "1", "1.00 ± –", "–", "–"],
    ]
    other = trials[0].model_copy(update={"experiments": ["transport"]})
    assert paper_tables(make_run(("ipsec",)), [other]) == [], "another experiment's"
    nothing = searched_at("ipsec", 1, (50, 0.0))
    (table,) = paper_tables(make_run(("ipsec",)), [nothing])
    assert table.rows[0][4:7] == ["0", "–", "–"]


def test_what_the_receivers_socket_drops_is_a_column_beside_the_loss_of_the_vpn() -> None:
    large = searched_at("ipsec", 1, (100, 0.002), (100, 0.004))  # the socket's drops are no loss there
    small = searched_at("ipsec", 1, (100, 0.009), (100, 0.005), metric="udp_socket_throughput")
    buffers = {"measure": "udp_sockets", "send_buffer_bytes": "9216", "receive_buffer_bytes": "196608"}
    small = small.model_copy(update={"params": small.params | buffers, "experiments": ["sockets"]})
    for trial, shares in ((large, (0.001, 0.003)), (small, (0.008, 0.001))):
        for one, share in zip(trial.measurements[0].detail["trials"], shares, strict=True):
            one["receiver_drop_ratio"] = share
    (table,) = paper_tables(make_run(("ipsec",)), [large, small])
    assert [row[2:7] for row in table.rows] == [
        ["9 KB, 192 KB", "100.0", "2", "0.25 ± 0.21", "0.70 ± 0.28"],
        ["–", "100.0", "2", "0.30 ± 0.14", "0.50 ± 0.28"],
    ]


def whole(vpn: str, values: tuple[float, ...], seconds: int = 10, **levels: str) -> list[Trial]:
    """TCP tests of so many seconds, one a repetition, of the thesis' plain cell with other ``levels``."""
    params = PLAIN | ({"cipher": "none", "compression": "off"} if vpn in ("none", "ipip") else {}) | levels
    return [
        make_trial(vpn, params, block, {"tcp_throughput": value}, samples=seconds, experiments=("thesis",))
        for block, value in enumerate(values)
    ]


def test_coefficients_of_variation_are_the_thesis_tables() -> None:
    values = (100.0, 104.0, 98.0, 103.0)
    trials = [
        *whole("none", values),
        *whole("ipsec", values),
        *whole("ipsec", values[:2], cipher="3des-cbc"),
        *whole("openvpn", values, compression="on", payload="zeros"),
        *whole("openvpn", values, compression="on", payload="zeros"),
        *whole("ssh_tun", values, seconds=9),
        *whole("wireguard_go", values, cipher="chacha20-poly1305"),
    ]
    run = make_run(tuple(dict.fromkeys(trial.vpn for trial in trials)))
    tables = {table.key: table for table in paper_tables(run, trials)}
    ours = "2.7 (1.5–10.2)"  # a variance of three degrees of freedom
    assert tables["thesis-1"].rows == [["none", "no encryption", "4", ours, "0.0"]]
    assert tables["thesis-2"].rows == [
        ["ipsec", "aes-128-cbc", "4", ours, "4.2"],
        ["ssh_tun", "aes-128-cbc", "0", "–", "4.7"],
    ]
    assert "--duration 10" in tables["thesis-2"].notes[0]
    assert ["ipsec", "3des-cbc", "2", "–", "2.2"] in tables["thesis-4"].rows
    assert ["openvpn", "compression on, zeros", "4", ours, "2.6"] in tables["thesis-5"].rows
    assert ["ipsec", "compression off", "4", ours, "4.2"] in tables["thesis-5"].rows
    assert all(len(row) == len(table.head) for table in tables.values() for row in table.rows)


def test_each_published_coefficient_of_variation_has_a_row_in_a_run_of_the_whole_thesis() -> None:
    run, trials = made("thesis")
    tables = [table for table in paper_tables(run, trials) if table.key.startswith("thesis-")]
    stated = [value for value in paper("thesis").values if value.metric == "coefficient_of_variation"]
    assert sum(len(table.rows) for table in tables if table.key != "thesis-3") == len(stated) - 1, "but the highest"


def cut(vpn: str, host: float, gateway: float, outer: float, fragments: int, **levels: str) -> Trial:
    """100 of the thesis' datagrams: fragments that host and gateway made of each, and packets on the WAN."""
    params = {"measure": "overhead", "cipher": "aes-128-cbc", "packet_bytes": "1498", "fragmentation": "allow"} | levels
    trial = make_trial(vpn, params, 1, {"overhead_bytes": 60.0}, experiments=("thesis",))
    trial.measurements[0].detail.update(
        fragments_per_packet={"host": host, "gateway": gateway},
        outer_packets_per_packet=outer,
        captured_lengths={"1500": round(50 * outer), "100": round(50 * outer)},
        captured_fragments=fragments,
    )
    return trial


def test_who_fragments_the_thesis_datagrams() -> None:
    trials = [
        cut("ipsec", 0.0, 2.0, 2.0, 200),
        cut("openvpn", 0.02, 2.0, 2.0, 0),
        cut("ssh_tun", 0.0, 0.0, 1.04, 0),
        cut("wireguard_go", 2.0, 2.0, 3.0, 200),
        cut("tinc", 0.0, 2.0, 2.0, 200, packet_bytes="512"),
    ]
    (table,) = paper_tables(make_run(tuple(trial.vpn for trial in trials)), trials)
    assert table.key == "thesis-fragments"
    assert {row[0]: row[2:] for row in table.rows} == {
        "ipsec": ["the gateway, its outer packet", "0.00", "2.00", "2.00", "2.00"],
        "openvpn": ["the gateway, the datagram itself", "0.02", "2.00", "2.00", "0.00"],
        "ssh_tun": ["nobody", "0.00", "0.00", "1.04", "0.00"],
        "wireguard_go": ["the host, and the gateway, its outer packet", "2.00", "2.00", "3.00", "2.00"],
    }
    assert all(len(row) == len(table.head) for row in table.rows)
