"""What ``vpneval report`` prints of a farm whose machines are of several kinds, and its page."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner.cli.commands.watch.work import view
from runner.cli.main import main
from runner.data.merge import identity
from runner.data.store import load_run, open_store
from runner.report.kinds import by_kind
from tests.bench.made_up_farm import MACHINE, VPNS, block_of, run_of

CapSys = pytest.CaptureFixture[str]
OTHER = MACHINE.model_copy(update={"cpu": "Another CPU @ 3.1 GHz", "cores": 4})
COMMAND = ["vpneval", "run", "transport", "--farm", "tls://lab1:8786", "--reps", "15"]


def fill(folder: Path, speeds: dict[str, dict[str, float]], others: tuple[str, ...] = ()) -> Path:
    """A run folder with three blocks of each machine; ``speeds`` as in VPNS, where a machine differs."""
    run = run_of(3 * len(speeds))
    call = run.invocations[0].model_copy(update={"command_line": COMMAND})
    machines = {name: OTHER if name in others else MACHINE for name in speeds}
    with open_store(folder) as store:
        store.save_run(run.model_copy(update={"machines": machines, "invocations": [call]}))
        for place, (name, own) in enumerate(speeds.items()):
            for number in range(3 * place + 1, 3 * place + 4):
                trials, slices = block_of(number, speeds={**VPNS, **own})
                store.append_block([one.model_copy(update={"machine": name}) for one in trials], slices)
    return folder


@pytest.fixture
def two_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On three machines wireguard_go leads, on two of another kind openvpn."""
    monkeypatch.chdir(tmp_path)
    fast = {"openvpn": 900e6}
    return fill(Path("run"), {"m1": {}, "m2": {}, "m3": fast, "m4": fast, "m5": {}}, ("m3", "m4"))


def called(capsys: CapSys, *argv: object, code: int = 0) -> str:
    """What `vpneval` prints; it ends with this exit code. Of an error, what it says."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, argv)])
    out, err = capsys.readouterr()
    assert (ended.value.code or 0) == code, err
    return err if code == 2 else out


def printed(capsys: CapSys, *argv: object) -> str:
    """What `vpneval report` prints, however its lines are broken; it ends well."""
    out = called(capsys, "report", *argv)
    return out if "--format" in argv else " ".join(out.split())


def test_each_kind_of_machine_has_its_answer(two_kinds: Path, capsys: CapSys) -> None:
    text = printed(capsys, two_kinds, "--across", "machines")
    head, first, second = text.split(" kind of machine ")
    assert not head.strip("─ ")
    assert "Made-up CPU @ 2.0 GHz, 2 cores, Linux 6.18.0, a farm of 3 machines" in first
    assert "(left out, of other kinds: m3, m4)" in first
    assert "wireguard_go leads on 3 of 3 machines." in first
    assert "wireguard_go ranks first" in first
    assert "Another CPU @ 3.1 GHz, 4 cores, Linux 6.18.0, a farm of 2 machines" in second
    assert "(left out, of other kinds: m1, m2, m5)" in second
    assert "openvpn leads on 2 of 2 machines." in second
    assert "openvpn ranks first" in second
    assert "one machine" not in text
    assert text.count(f"vpneval report {two_kinds} --across machines --full") == 2
    assert "report.html" not in text  # the page of the run is about the first kind alone


def test_the_whole_run_says_whom_it_leaves_out(two_kinds: Path, capsys: CapSys) -> None:
    text = printed(capsys, two_kinds)
    assert "a farm of 3 machines (left out, of other kinds: m3, m4)" in text
    assert f"vpneval report {two_kinds} --across machines" in text
    page = printed(capsys, two_kinds, "--format", "html")
    assert "a farm of 3 machines (left out, of other kinds: m3, m4)" in page
    assert "vpneval report DIR --across machines has a report for each kind" in page
    assert "wireguard_go over ssh_tun on each machine" in page


def test_each_kind_as_data_and_as_markdown(two_kinds: Path, capsys: CapSys) -> None:
    first, second = json.loads(printed(capsys, two_kinds, "--across", "machines", "--format", "json"))
    leaders = [one["judgements"]["rank"]["rankings"][0]["standings"][0]["vpn"] for one in (first, second)]
    assert leaders == ["wireguard_go", "openvpn"]
    assert [one["cores"] for one in (first, second)] == [2, 4]
    text = printed(capsys, two_kinds, "--across", "machines", "--format", "md")
    assert text.startswith("# vpneval: ")
    assert text.count("\n# vpneval: ") == 1
    assert "─" not in text


def test_each_kind_has_the_facts_of_its_own_machines(two_kinds: Path, capsys: CapSys) -> None:
    path = two_kinds / "run.json"
    run = json.loads(path.read_text())
    run["machines"]["m4"]["lab"] = {"kind": "netns", "cpu": OTHER.cpu, "cores": 4, "governor": "powersave"}
    path.write_text(json.dumps(run))
    first, second = json.loads(printed(capsys, two_kinds, "--across", "machines", "--format", "json"))
    governors = [[fact["value"] for fact in one["facts"] if fact["name"] == "lab governor"] for one in (first, second)]
    assert governors == [[], ["powersave"]]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--across", "kernels"], "unknown --across 'kernels'. Valid: machines"),
        (["--across", "machines", "--format", "html"], "unknown format of --across 'html'"),
        (["--across", "machines", "--write"], "it does not go with --across: leave out one"),
    ],
)
def test_what_cannot_be_printed_for_each_kind(two_kinds: Path, capsys: CapSys, argv: list[str], why: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(two_kinds), *argv])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_one_kind_of_machine(tmp_path: Path, capsys: CapSys) -> None:
    text = printed(capsys, fill(tmp_path / "run", {"m1": {}, "m2": {}}), "--across", "machines")
    assert "kind of machine 1 of 1" in text
    assert "a farm of 2 machines" in text
    assert "left out" not in text


def test_what_is_undecided_asks_for_machines(tmp_path: Path, capsys: CapSys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A farm has no deadline: nothing is said of one."""
    monkeypatch.chdir(tmp_path)
    slow, slower = {"wireguard_go": 360e6}, {"wireguard_go": 340e6}
    folder = fill(Path("run"), {"m1": slow, "m2": slower, "m3": {}})
    text = printed(capsys, folder)
    assert "On a farm, more machines decide them soonest, then more repetitions: vpneval more run" in text
    page = printed(capsys, folder, "--format", "html")
    assert "more machines decide them soonest" in page
    assert "--deadline" not in text + page.split("</header>")[1].split("<section")[1]


def test_why_answers_for_each_kind(two_kinds: Path, capsys: CapSys) -> None:
    _, first, second = called(capsys, "why", "openvpn", "wireguard_go", two_kinds).split("kind of machine ")
    assert "Made-up CPU @ 2.0 GHz, 2 cores, Linux 6.18.0, a farm of 3 machines" in first
    assert "openvpn has 0.4" in first
    assert "TCP throughput of wireguard_go: worse." in first
    assert "Another CPU @ 3.1 GHz, 4 cores, Linux 6.18.0, a farm of 2 machines" in second
    assert "openvpn has 1.5" in second
    assert "TCP throughput of wireguard_go: better." in second


def test_why_of_a_kind_that_has_not_measured_one_of_them(two_kinds: Path, capsys: CapSys) -> None:
    leave(two_kinds, lambda trial: trial["vpn"] != "openvpn" or trial["machine"] not in ("m3", "m4"))
    _, first, second = called(capsys, "why", "openvpn", "wireguard_go", two_kinds).split("kind of machine ")
    assert "TCP throughput of wireguard_go: worse." in first
    assert "These machines compare openvpn and wireguard_go in nothing." in second
    leave(two_kinds, lambda trial: trial["vpn"] != "openvpn")
    assert "compares openvpn and wireguard_go in nothing" in called(
        capsys, "why", "openvpn", "wireguard_go", two_kinds, code=2
    )


def leave(folder: Path, which: Callable[[dict[str, Any]], bool]) -> None:
    path = folder / "trials.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if which(json.loads(line))))


def test_watch_ranks_one_kind_and_says_so(two_kinds: Path, capsys: CapSys) -> None:
    text = " ".join(called(capsys, "watch", two_kinds).split())
    assert "60 trials, 15 repetitions" in text
    assert "The ranking is of the machines m1, m2, m5. m3, m4 are of other kinds: vpneval report DIR --across" in text
    run, trials = load_run(two_kinds)
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(view(*by_kind(run, trials)[0], console))
    ranked = [line for line in console.export_text().splitlines() if "wireguard_go" in line and "%" in line]
    assert ranked
    assert all(" ".join(line.split()) in text for line in ranked)


def test_watch_with_two_kinds_fits_the_terminal(two_kinds: Path) -> None:
    console = Console(width=80, height=20, file=io.StringIO(), force_terminal=True)
    shown = view(*load_run(two_kinds), console)
    assert len(console.render_lines(shown)) <= console.height


def test_history_has_each_kind_by_itself(two_kinds: Path, capsys: CapSys) -> None:
    page = called(capsys, "history", two_kinds)
    assert page.count("<section><h2>") == 2
    assert page.count("<h2>netns, 6.18.0, Made-up CPU @ 2.0 GHz, 2,") == 1
    assert page.count(f"<h2>netns, 6.18.0, {OTHER.cpu}, 4,") == 1


def test_kinds_with_different_images_are_different_labs(two_kinds: Path) -> None:
    path = two_kinds / "run.json"
    run = json.loads(path.read_text())
    run["image"] = {"name": "trixie", "digest": "0123", "packages": {"openvpn": "2.6"}}
    for name in ("m3", "m4"):
        run["machines"][name] = json.loads(MACHINE.model_copy(update={"image": "trixie 4567"}).model_dump_json())
    path.write_text(json.dumps(run))
    (first, _), (second, _) = by_kind(*load_run(two_kinds))
    assert first.image == run["image"]
    assert second.image == {"name": "trixie", "digest": "4567"}
    assert identity(first) != identity(second)


def test_compare_takes_each_kind_with_itself(two_kinds: Path, capsys: CapSys) -> None:
    """openvpn became slower on one kind of the two."""
    slower = {"openvpn": 450e6}
    after = fill(Path("after"), {"m1": {}, "m2": {}, "m3": slower, "m4": slower, "m5": {}}, ("m3", "m4"))
    text = called(capsys, "compare", two_kinds, after, code=1)
    _, first, second = text.split("kind of machine ")
    assert "On the machines with Made-up CPU @ 2.0 GHz" in first
    assert "No significant regression" in first
    assert "On the machines with Another CPU @ 3.1 GHz" in second
    assert "openvpn" in second
    assert "Significant regression" in second
    made = json.loads(called(capsys, "compare", two_kinds, after, "--json", code=1))
    assert [one["outcome"] for one in made] == ["fine", "worse"]
    assert "--format html holds one comparison" in " ".join(
        called(capsys, "compare", two_kinds, after, "--format", "html", code=2).split()
    )


def test_compare_says_which_machines_have_no_counterpart(two_kinds: Path, capsys: CapSys) -> None:
    after = fill(Path("after"), {"m1": {}, "m2": {}})
    text = called(capsys, "compare", two_kinds, after)
    assert "kind of machine" not in text
    assert "No significant regression" in text
    assert "Only before: the machines m3, m4" in text
    page = called(capsys, "compare", two_kinds, after, "--format", "html")
    assert "On the machines with Made-up CPU @ 2.0 GHz" in page


def test_compare_refuses_where_no_kind_is_in_both(two_kinds: Path, capsys: CapSys) -> None:
    other = MACHINE.model_copy(update={"cpu": "A third CPU"})
    run = json.loads((fill(Path("after"), {"m1": {}}) / "run.json").read_text())
    run["machines"] = {"m1": json.loads(other.model_dump_json())}
    Path("after/run.json").write_text(json.dumps(run))
    said = " ".join(called(capsys, "compare", two_kinds, "after", code=2).split())
    assert "no kind of machine is in both" in said
    assert "vpneval report DIR --across machines" in said
