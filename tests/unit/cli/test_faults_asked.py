"""What is asked is refused before anything starts, or told in a sentence: deadlines, weights, plugins, images, logs."""

import hashlib
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import digest_of, load_vpn
from runner.cli.commands.list import work as listing
from runner.cli.main import main
from runner.data.cache import cache_dir
from runner.data.errors import CannotRunHere, UsageError
from runner.data.merge import merge_runs
from runner.data.store import Store, open_store
from runner.data.trials import Measurement
from runner.design.profile import PROFILES, Profile, with_duration
from runner.lab.node import logs
from runner.lab.node.logs import LogFile, tail
from runner.lab.places import rootless
from runner.lab.software import image
from runner.lab.software.image import Image, Manifest
from runner.sweep import run as session
from runner.sweep.plan import blocks, expected_s
from runner.sweep.run_record import describe, measured_vpns
from runner.vpn import guard
from tests.unit.asking import request
from tests.unit.cli.test_faults_output import MINE, code_of
from tests.unit.data.test_store import RUN, trial

CapSys = pytest.CaptureFixture[str]


def test_a_deadline_in_which_nothing_can_be_measured() -> None:
    with pytest.raises(
        UsageError, match=r"--deadline 1s is too short: the shortest trial of this run takes about [1-9]"
    ):
        request("transport", vpns="openvpn", deadline_s=1)
    assert request("transport", vpns="openvpn", deadline_s=60).asked.deadline_s == 60


def test_weights_that_the_run_will_not_measure_are_refused_before_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"this run does not measure udp_throughput \(it measures: .*tcp_throughput"):
        request("cipher", vpns="openvpn", weights="udp_throughput=1,tcp_throughput=1")
    assert request("cipher", vpns="openvpn", weights="tcp_throughput=1").weights is None
    asked = request("cipher", vpns="openvpn", weights="tcp_throughput=1", until_significant=True)
    assert asked.weights is not None


def test_weights_may_count_what_an_earlier_call_has_measured(tmp_path: Path) -> None:
    found = Measurement(metric="udp_throughput", value=1e6, unit="bit/s", better="higher")
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
        store.append(trial("a").model_copy(update={"measurements": [found]}))
    request("cipher", vpns="openvpn", weights="udp_throughput=1", out=tmp_path / "run")


def test_the_report_is_written_where_what_the_weights_count_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
        store.append(trial("a"))
    outcome = SimpleNamespace(stopped="", separation="", trimmed=0, passed_over=0)
    monkeypatch.setattr(session, "run", lambda *_: outcome)
    monkeypatch.setattr(rootless, "enter", lambda lab: None)
    asked = ("run", "transport", "--vpn", "none", "--weights", "tcp_throughput=1", "--quiet")
    assert code_of(*asked, "--out", str(tmp_path / "run")) == 1
    assert "this run does not measure tcp_throughput" in capsys.readouterr().err
    assert (tmp_path / "run" / "report.html").exists()


def test_a_run_that_measured_nothing_before_its_deadline_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
    outcome = SimpleNamespace(stopped="", separation="", trimmed=3, passed_over=0)
    monkeypatch.setattr(session, "run", lambda *_: outcome)
    monkeypatch.setattr(rootless, "enter", lambda lab: None)
    asked = ("run", "transport", "--vpn", "none", "--deadline", "9s", "--quiet")
    assert code_of(*asked, "--out", str(tmp_path / "run")) == 1
    assert "Nothing could be measured before the deadline" in capsys.readouterr().err


def test_the_plan_of_a_thousand_blocks_is_no_work(capsys: CapSys) -> None:
    started = time.process_time()
    code_of("plan", "thesis", "--vpn", "openvpn", "--reps", "1000", "--json")
    assert time.process_time() - started < 10
    many = json.loads(capsys.readouterr().out)
    code_of("plan", "thesis", "--vpn", "openvpn", "--reps", "2", "--json")
    two = json.loads(capsys.readouterr().out)
    code_of("plan", "thesis", "--vpn", "openvpn", "--reps", "1", "--json")
    one = json.loads(capsys.readouterr().out)
    assert many["trials"] == one["trials"] + 999 * (two["trials"] - one["trials"])
    assert many["expected_s"] == pytest.approx(
        one["expected_s"] + 999 * (two["expected_s"] - one["expected_s"]),
        abs=1000,  # both are rounded to a second
    )


def described(store: Store, mine: Path) -> Any:
    asked = request("reference", vpns=str(mine))
    facts = dict.fromkeys(("kernel", "kind", "cpu"), "x")
    return describe(asked, store, facts, Image("trixie", Path("/"), "abc", {}), {}, measured_vpns(store))


def test_another_plugin_of_the_same_name_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    with open_store(tmp_path / "run") as store:
        run = described(store, mine)
        assert run.vpns["mine"].digest == digest_of(load_vpn(str(mine)))
        store.save_run(run)
        mine.write_text(MINE + "    note = 'mended'\n")
        store.save_run(described(store, mine))  # nothing was measured with the former
        store.append(trial("a").model_copy(update={"vpn": "mine"}))
        assert described(store, mine).vpns["mine"].note == "mended"
        mine.write_text(MINE)
        with pytest.raises(UsageError, match=r"has trials of another plugin called mine .digest"):
            described(store, mine)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize("duration_s", [None, 3])
def test_a_profile_noted_in_earlier_words_goes_on(tmp_path: Path, profile: Profile, duration_s: int | None) -> None:
    asked = request("reference", vpns="ipip", profile=profile.name, duration_s=duration_s)
    with open_store(tmp_path / "run") as store:
        run = describe(asked, store, {}, Image("trixie", Path("/"), "abc", {}), {}, measured_vpns(store))
        before = with_duration(profile, duration_s) if duration_s else profile
        assert before.note not in before.noted_before
        for words in (before.note, *before.noted_before):
            store.save_run(run.model_copy(update={"profile_note": words}))
            describe(asked, store, {}, Image("trixie", Path("/"), "abc", {}), {}, measured_vpns(store))
        other = request("reference", vpns="ipip", profile=profile.name, duration_s=4)
        with pytest.raises(UsageError, match="was measured with profile"):
            describe(other, store, {}, Image("trixie", Path("/"), "abc", {}), {}, measured_vpns(store))


def test_a_run_whose_searches_had_trials_of_another_length_does_not_go_on() -> None:
    assert PROFILES["thesis"].noted_before
    assert not with_duration(PROFILES["thesis"], 3).noted_before, "its trials were of 10 s, whatever --duration said"


def test_the_digest_is_of_what_a_plugin_is_made_of(tmp_path: Path) -> None:
    assert digest_of(load_vpn("openvpn")) != digest_of(load_vpn("ssh_tun"))
    (tmp_path / "a.py").write_text(MINE)
    (tmp_path / "b.py").write_text(MINE.replace("openvpn", "openvpn_tcp").replace("OpenVpn", "OpenVpnTcp"))
    assert digest_of(load_vpn(str(tmp_path / "a.py"))) != digest_of(load_vpn("openvpn"))


def test_runs_with_different_plugins_of_one_name_are_not_ranked_together(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        (tmp_path / "mine.py").write_text(MINE)
        one = described(store, tmp_path / "mine.py")
    other = one.model_copy(update={"vpns": {"mine": one.vpns["mine"].model_copy(update={"digest": "f00"})}})
    old = one.model_copy(update={"vpns": {"mine": one.vpns["mine"].model_copy(update={"digest": ""})}})
    merge_runs([(one, []), (old, [])])
    with pytest.raises(UsageError, match="have different plugins called mine"):
        merge_runs([(one, []), (other, [])])


RAISES = """from vpns.openvpn import OpenVpn


class Mine(OpenVpn):
    def {method}(self, *args, **named):
        raise {error}
"""


@pytest.mark.parametrize(
    "error",
    [
        *("ValueError('no')", "SystemExit(0)", "OSError(28, 'full')", "RecursionError"),
        *("GeneratorExit", "BaseException", "StopIteration"),
    ],
)
@pytest.mark.parametrize("method", ["start", "secrets", "__init__"])
def test_the_recipe_of_a_plugin_that_raises(tmp_path: Path, capsys: CapSys, method: str, error: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(RAISES.format(method=method, error=error))
    assert code_of("recipe", str(mine)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    kind = error.partition("(")[0]
    assert f"line 6: {kind}" in err
    assert "plugin" in err
    assert "mine" in err


def test_the_recipe_of_a_plugin_that_never_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.setattr(guard, "LONG_S", 0.0)
    mine = tmp_path / "mine.py"
    mine.write_text(RAISES.format(method="start", error="KeyboardInterrupt"))
    assert code_of("recipe", str(mine)) == 130
    said = "vpneval was interrupted: start of the plugin mine had not returned after 0 s (mine.py, line 6)\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("error", ["SystemExit(0)", "GeneratorExit", "BaseException('bare')", "StopIteration"])
@pytest.mark.parametrize("option", ["--vpn", "--instrument"])
def test_a_file_that_raises_while_it_is_loaded(tmp_path: Path, capsys: CapSys, option: str, error: str) -> None:
    (tmp_path / "mine.py").write_text(f"\nraise {error}\n")
    assert code_of("plan", "reference", option, str(tmp_path / "mine.py")) == 2
    said = capsys.readouterr().err
    assert "mine.py cannot be loaded: line 2: " + error.partition("(")[0] in said


@pytest.mark.parametrize("error", ["UsageError('no')", "KeyboardInterrupt"])
def test_what_a_plugin_raises_while_it_is_made_is_the_users_own_or_names_its_file(tmp_path: Path, error: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from runner.data.errors import UsageError\n" + RAISES.format(method="__init__", error=error))
    if error == "KeyboardInterrupt":
        with pytest.raises(KeyboardInterrupt):
            load_vpn(str(mine))
    else:
        with pytest.raises(UsageError, match=r"mine\.py cannot be made: line 7: UsageError: no"):
            load_vpn(str(mine))


def with_tools(root: Path) -> None:
    """What every node needs, iperf3 by a link that is absolute in the image, and what dpkg says of it."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    for tool in image.NODE_TOOLS:
        (root / "usr/bin" / tool).write_text("#!/bin/sh\n")
        (root / "usr/bin" / tool).chmod(0o755)
    (root / "usr/bin/iperf3").rename(root / "usr/bin/iperf3.real")
    (root / "usr/bin/iperf3").symlink_to("/bin/iperf3.real")
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    digest = hashlib.md5(b"#!/bin/sh\n", usedforsecurity=False).hexdigest()
    (root / "var/lib/dpkg/info/iperf3.md5sums").write_text(f"{digest}  usr/bin/iperf3.real\n{digest}  bin/bash\n")


def test_what_every_node_needs_is_looked_at_before_a_lab_is_made(tmp_path: Path) -> None:
    with_tools(tmp_path)
    assert image.find_damage(tmp_path) == []
    (tmp_path / "usr/bin/bash").write_text("")
    (tmp_path / "usr/bin/iperf3.real").unlink()
    (tmp_path / "usr/bin/python3").unlink()
    (tmp_path / "usr/bin/python3").symlink_to("python3")
    (tmp_path / "usr/bin/ss").chmod(0o644)
    assert image.find_damage(tmp_path) == [
        "bash (package bash) is not the file that was installed",
        "iperf3 (package iperf3) is missing",
        "python3 (package python3) is missing",
        "ss (package iproute2) is missing",
    ]


def test_a_thousand_repetitions_of_the_papers_are_planned_when_their_turn_comes() -> None:
    asked, started = (
        request("papers", vpns="openvpn,ipsec", repetitions=1000),
        time.process_time(),
    )
    plan = blocks(asked.cells, 1000, 1, set(), set(), asked.profile)
    first, rest = plan.block(1), plan.after(1).sums
    assert (len(first.tunnels) > 0, rest.blocks, rest.trials) == (True, 999, plan.sums.trials // 1000 * 999)
    assert time.process_time() - started < 3


def test_the_command_that_plans_a_thousand_repetitions_of_the_papers_is_no_work(capsys: CapSys) -> None:
    started = time.process_time()
    code_of("plan", "papers", "--reps", "1000")
    assert "1000 repetitions" in capsys.readouterr().out
    assert time.process_time() - started < 10


def test_the_sums_of_a_plan_are_those_of_its_blocks() -> None:
    asked = request("thesis", vpns="openvpn")
    plan = blocks(asked.cells, 6, 1, set(), set(), asked.profile)
    some = {trial.id for block in list(plan)[:3] for tunnel in block.tunnels[::2] for trial in tunnel.trials}
    plan = blocks(asked.cells, 6, 1, some, set(), asked.profile)
    for part in (plan, plan.after(1), plan.after(2), plan.after(5), plan.after(6)):
        tunnels = [tunnel for block in part for tunnel in block.tunnels]
        assert part.sums.trials == sum(len(tunnel.trials) for tunnel in tunnels)
        assert part.sums.expected_s == pytest.approx(sum(expected_s(tunnel, asked.profile) for tunnel in tunnels))


@pytest.mark.parametrize("text", ["", "{", "[" * 99_999, "[]", '{"name": "trixie"}', "\0"])
def test_a_damaged_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path))
    root = image.locate("trixie")
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text("Package: a\nVersion: 1\n")
    with_tools(root)
    root.with_suffix(".json").write_text(text)
    with pytest.raises(CannotRunHere, match=r"was changed after it was built. Rebuild it with: vpneval image"):
        image.open_image("trixie")
    whole = Manifest(name="trixie", packages={"a": "1"}, dpkg_status_sha256=image._digest(root / "var/lib/dpkg/status"))
    root.with_suffix(".json").write_text(whole.model_dump_json())
    assert image.open_image("trixie").packages == {"a": "1"}
    shutil.rmtree(root)
    with pytest.raises(CannotRunHere, match="was changed after it was built"):
        image.open_image("trixie")


def test_a_cache_that_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"VPNEVAL_CACHE is .*file, which is not a folder"):
        cache_dir()
    assert code_of("image") == 2
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "file" / "below"))
    assert code_of("image") == 3
    assert "the lab image cannot be stored in" in capsys.readouterr().err


def test_of_a_very_long_log_the_two_ends_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 10_000)
    monkeypatch.setattr(logs, "KEPT_BYTES", 2000)
    path = tmp_path / "gw1-d.log"
    log = LogFile(path)
    total = 0
    for number in range(5000):
        line = b"line %d\n" % number
        total += len(line)
        log.write(line)
        assert path.stat().st_size <= 10_100
    log.flush()
    said = path.read_text()
    assert said.startswith("line 0\nline 1\n")
    assert said.endswith("line 4998\nline 4999\n")
    assert "bytes are left out here: of a long log its two ends are kept" in said
    left_out = int(said.split("\n… ")[1].split()[0])
    assert left_out == pytest.approx(total - path.stat().st_size, rel=0.02)


def test_the_reason_of_a_failure_reads_the_end_of_a_log_only(tmp_path: Path) -> None:
    with (tmp_path / "gw1-d.log").open("wb") as log:
        log.truncate(1 << 40)  # sparse: to read it is impossible
        log.seek(0, 2)
        log.write(b"\nthe last words\n")
    assert tail(tmp_path).endswith("gw1-d.log: " + tail(tmp_path).split("gw1-d.log: ")[1])
    assert "the last words" in tail(tmp_path)


def test_main_says_what_no_command_has_foreseen(monkeypatch: pytest.MonkeyPatch, capsys: CapSys) -> None:
    def fails(**_: Any) -> None:
        raise OSError(28, "No space left on device", "/some/where")

    monkeypatch.setattr(listing, "tables", fails)
    with pytest.raises(SystemExit, match="4"):
        main(["list"])
    assert capsys.readouterr().err == "vpneval: /some/where: No space left on device\n"
