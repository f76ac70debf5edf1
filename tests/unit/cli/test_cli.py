"""The command line: what is wrong is said in one sentence before anything starts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import GROUPS, experiment_names, factors, load_vpn, metrics, version_names, vpn_names
from runner.cli import options
from runner.cli.commands.list.work import ABSENT
from runner.cli.commands.plan.work import expected_time, searches
from runner.cli.main import main
from runner.data.errors import UsageError
from runner.data.levels import LEVELS
from runner.data.numbers import roughly, seconds
from runner.data.store import check_run_folder, load_run
from runner.design.profile import PROFILES
from runner.instruments.traffic.udp import search_of
from runner.lab.names import image_names
from runner.lab.places import rootless
from runner.lab.shape import site_to_site as lab
from runner.ranking.weights import PRESETS
from runner.sweep.repeating import MOST_REPETITIONS
from tests.unit.asking import by_the_command, request

CapSys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no root: whatever slips through here starts no lab."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rootless, "refusal", lambda: "it is off; allow it with: sudo x")
    return tmp_path


def vpneval(capsys: CapSys, *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    with pytest.raises(SystemExit) as exit_:
        main(list(argv))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return int(exit_.value.code or 0), out, err


WRONG = [
    (("run", "trnsport"), "unknown experiment 'trnsport'; did you mean transport", experiment_names()),
    (("run", "transport", "--vpn", "openvpm"), "unknown VPN 'openvpm'; did you mean openvpn", vpn_names()),
    (("run", "transport", "--set", "cypher=null"), "unknown factor 'cypher'; did you mean cipher", [*factors()]),
    (
        ("run", "transport", "--set", "cipher=aes-128-gcn"),
        "unknown cipher level 'aes-128-gcn'; did you mean aes-128-gcm",
        LEVELS["cipher"],
    ),
    (("run", "transport", "--profile", "quik"), "unknown profile 'quik'; did you mean quick", [*PROFILES]),
    (("run", "transport", "--image", "trixi"), "unknown image 'trixi'; did you mean trixie", image_names()),
    (("run", "transport", "--gateway-image", "trixie,bokworm"), "did you mean bookworm", image_names()),
    (
        ("run", "transport", "--weights", "tcp_thruput=1"),
        "unknown metric 'tcp_thruput'; did you mean tcp_",
        ["rtt", "jitter"],
    ),
    (("run", "transport", "--weights", "balancd"), "unknown weights 'balancd'; did you mean balanced", [*PRESETS]),
    (("run", "transport", "--lab", "netn"), "unknown lab 'netn'; did you mean netns", ["netns"]),
    (("run", "transport", "--kernel", "hots"), "unknown kernel 'hots'; did you mean host", ["host"]),
    (("plan", "cypher"), "unknown experiment 'cypher'; did you mean cipher", experiment_names()),
    (("list", "vpn"), "unknown listing 'vpn'; did you mean vpns", ["vpns", "metrics", "presets"]),
    (("recipe", "wiregard"), "unknown VPN 'wiregard'; did you mean wireguard", vpn_names()),
    (("lab", "shell", "gw3"), "unknown node 'gw3'; did you mean gw", ["host1", "gw1", "wan", "gw2", "host2"]),
    (("doctor", "--image", "trixi"), "unknown image 'trixi'; did you mean trixie", image_names()),
    (("image", "trixy"), "unknown image 'trixy'; did you mean trixie", ["trixie", "bookworm"]),
    (("report", ".", "--format", "htm"), "unknown format 'htm'; did you mean html", ["md", "json", "csv"]),
]


@pytest.mark.parametrize(("argv", "said", "valid"), WRONG, ids=[" ".join(argv) for argv, _, _ in WRONG])
def test_what_does_not_exist(capsys: CapSys, nowhere: Path, argv: tuple[str, ...], said: str, valid: list[str]) -> None:
    code, out, err = vpneval(capsys, *argv)
    assert code == 2
    assert said in err
    assert all(name in err for name in valid)
    assert out == ""
    assert os.listdir(nowhere) == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("run", "transport", "--vpn", "./mine.py"), "no plugin file ./mine.py"),
        (("run", "transport", "--vpn", "./mine"), "whose name ends in .py, not ./mine"),
        (("run", "transport", "--reps", "0"), "--reps must be from 1 to 1000, not 0"),
        (("plan", "transport", "--reps", "1000000000"), "--reps must be from 1 to 1000, not 1000000000"),
        (
            ("run", "transport", "--duration", "0"),
            "--duration must be a whole number of seconds from 1 to 86400, not 0",
        ),
        (
            ("report", "a/run", "a/../a/run"),
            "named twice: a/../a/run, a/run. Every trial would count twice; name each run once",
        ),
        (("run", "transport", "--deadline", "soon"), "--deadline must be a time like 360, 90s, 6m or 2h, not 'soon'"),
        (("run", "transport", "--weights", "rtt=-1"), "zero or more"),
        (("run", "transport", "--weights", "rtt=0"), "all weights are zero"),
        (("run", "cipher", "--set", "measure=udp"), "leaves nothing to measure in cipher"),
        (("run", "transport", "--set", "cipher"), "--set takes factor=level"),
        (("run", "transport", "--set", "measure=tcp", "--set", "streams"), "factor=level, not 'streams'"),
        (("run", "transport", "--vpn", ""), "is given without a value"),
        (("recipe", "openvpn", "--set", " , "), "is given without a value"),
        (("plan", "transport", "--reps", "1", "--reps", "2"), "--reps is given 2 times; give it once"),
        (("run", "transport", "--out", "a", "--out=a"), "--out is given 2 times; give it once"),
        (("report", ".", "--format", "md", "--format", "md"), "--format is given 2 times; give it once"),
        (("lab", "shell", "gw1", "--vpn", "none", "--vpn", "ipip"), "--vpn is given 2 times; give it once"),
        (
            ("recipe", "openvpn", "--set", "cipher=null", "--set", "cipher=aes-128-gcm"),
            "a tunnel needs one level of each of cipher",
        ),
        (
            ("recipe", "openvpn", "--set", "streams=4"),
            "a tunnel needs one level of each of cipher, integrity, compression",
        ),
        (("recipe", "ssh_tun", "--set", "cipher=null"), "(asked: cipher null; offered: "),
        (("report", ".", "--write", "--format", "json"), "it does not go with --format json: leave out one"),
        (("report", ".", "--write", "--across", "machines"), "it does not go with --across: leave out one"),
        (("report", "."), "is not a run folder"),
        (("report", "absent"), "absent is not a run folder: it is not there"),
        (("report", __file__), "is not a run folder: it is a file"),
        (("run", "ha", "--vpn", "none"), "--profile quick --vpn none leaves nothing to measure in ha"),
        (("compare", ".", "absent"), "is not a run folder"),
        (("run",), "Missing argument"),
        (("frobnicate",), "No such command"),
        (("run", "transport", "--frobnicate"), "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_makes_no_sense(capsys: CapSys, nowhere: Path, argv: tuple[str, ...], said: str) -> None:
    code, out, err = vpneval(capsys, *argv)
    assert code == 2
    assert said in err
    assert out == ""
    assert os.listdir(nowhere) == []


@pytest.mark.parametrize("argv", [("run", "transport"), ("lab", "shell", "host1"), ("run", "reference", "--out", "x")])
def test_not_root(capsys: CapSys, nowhere: Path, argv: tuple[str, ...]) -> None:
    code, _, err = vpneval(capsys, *argv)
    assert code == 3
    assert "without root, the namespace lab needs user namespaces: it is off; allow it with: sudo x" in err
    assert os.listdir(nowhere) == []


def test_a_missing_tool_is_named_with_its_package(
    capsys: CapSys, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("ip", "nsenter") else f"/bin/{tool}")
    code, _, err = vpneval(capsys, "run", "transport")
    assert code == 3
    assert "missing: nsenter, ip; get it with: apt-get install iproute2 util-linux" in err
    assert os.listdir(nowhere) == []


def test_doctor_without_root_says_what_to_do(capsys: CapSys) -> None:
    code, out, _ = vpneval(capsys, "doctor", "--json")
    assert code == 3
    checks = {check["what"]: check for check in json.loads(out)}
    assert checks["lab netns"]["level"] == "error"
    assert "allow it with: sudo x" in checks["lab netns"]["says"]
    assert {f"command {tool}" for tool in lab.HOST_TOOLS} <= set(checks)


def test_building_an_image_needs_root(capsys: CapSys, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPNEVAL_CACHE", str(nowhere / "cache"))
    code, _, err = vpneval(capsys, "image", "trixie")
    assert code == 3
    assert "without root, the namespace lab needs user namespaces: it is off; allow it with: sudo x" in err
    assert os.listdir(nowhere) == []


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("vpns", [*vpn_names(), *version_names()]),
        ("experiments", [*experiment_names(), *GROUPS]),
        ("metrics", [*metrics()]),
        ("presets", [*PRESETS]),
        ("absent", [system["name"] for system in ABSENT]),
        ("factors", [*factors()]),
        ("profiles", [*PROFILES]),
    ],
)
def test_list(capsys: CapSys, what: str, expected: list[str]) -> None:
    code, out, err = vpneval(capsys, "list", what, "--json")
    assert (code, err) == (0, "")
    assert [row["name"] for row in json.loads(out)] == expected
    code, out, err = vpneval(capsys, "list", what)
    assert (code, bool(err)) == (0, what == "vpns"), "which also names those that are not here"
    assert all(name in out for name in expected)


def test_plan_says_what_one_tunnel_at_a_time_costs(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for profile in ("quick", "thesis"):
        for spec in ("netns", "vagrant"):
            code, out, _ = vpneval(capsys, "plan", "transport", "--profile", profile, "--lab", spec)
            assert code == 0
            said[profile, spec] = "One tunnel stands at a time in this lab." in out
    assert said == {
        ("quick", "netns"): False,
        ("quick", "vagrant"): True,
        ("thesis", "netns"): False,
        ("thesis", "vagrant"): False,
    }


def test_plan_runs_without_root_and_starts_nothing(capsys: CapSys, nowhere: Path) -> None:
    code, out, _ = vpneval(capsys, "plan", "transport", "cipher", "compression")
    assert code == 0
    assert "trials, about" in " ".join(out.split())
    assert "quick profile" in out
    assert os.listdir(nowhere) == []


def test_a_command_of_another_day_is_planned_as_plan_does(capsys: CapSys) -> None:
    """Under whichever kernel, and with what ``plan`` does not have. What cannot be planned here has no time."""
    asked = "transport --vpn openvpn,ssh_tun --set cipher=aes-128-gcm --reps 4"
    code, out, _ = vpneval(capsys, "plan", *asked.split(), "--json")
    told = json.loads(out)
    planned = expected_time(by_the_command(f"{asked} --kernel uml --quiet"))
    assert code == 0
    assert planned
    assert (planned[0], round(planned[1])) == (told["trials"], told["expected_s"])
    for unknown in ("nothing --vpn openvpn", "transport --lab ssh:nowhere.toml"):
        assert expected_time(by_the_command(unknown)) is None, unknown


def test_plan_tells_what_until_significant_and_a_deadline_make_of_it(capsys: CapSys) -> None:
    asked = ("plan", "transport", "--vpn", "openvpn", "--until-significant")
    code, out, _ = vpneval(capsys, *asked)
    assert code == 0
    said = " ".join(out.split())
    assert "--until-significant then repeats what is undecided: up to 30 repetitions, at most" in said
    code, out, _ = vpneval(capsys, *asked, "--deadline", "6m")
    said = " ".join(out.split())
    assert "repeats what is undecided: until the deadline." in said
    assert "--deadline ends the run after 6 min; trials that do not fit are left out." in said
    code, _, err = vpneval(capsys, *asked, "--deadline", "soon")
    assert (code, "--deadline must be a time" in err) == (2, True)


def test_plan_tells_what_protects_the_path_of_a_site_lab(capsys: CapSys, tmp_path: Path) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text('[gw1]\naddress = "192.0.2.1"\n[gw2]\naddress = "192.0.2.2"\n')
    asked = (
        "plan",
        "transport",
        "--vpn",
        "openvpn",
        "--profile",
        "site",
        "--max-rate",
        "200M",
        "--between",
        "01:00-05:00",
    )
    code, out, _ = vpneval(capsys, *asked, "--lab", f"site:{sites}")
    said = " ".join(out.split())
    assert code == 0
    assert "--until-significant then repeats what is undecided: up to 30 repetitions" in said
    assert "--max-rate: no test sends faster than 200 Mbit/s." in said
    hours = f"--between: tests run from 01:00 to 05:00 {time.tzname[0]} only. The run waits until then"
    assert f"{hours}, and the deadline counts" in said
    code, out, _ = vpneval(capsys, *asked, "--lab", f"site:{sites}", "--no-until-significant")
    assert "--until-significant" not in " ".join(out.split()).replace("--no-until-significant", "")
    for command in (asked, ("lab", "shell", "gw1", "--max-rate", "200M")):
        code, _, err = vpneval(capsys, *command)
        assert (code, "protects the path of a site lab" in err) == (2, True)


@pytest.mark.parametrize(
    ("rates", "complaint"),
    [
        ("1M", "--search-rates must be a rate from 100k to 1000G"),
        ("5M-1M", "--search-rates must be the lowest rate and a higher one, like 1M-5G, not '5M-1M'"),
        ("99k-1M", "--search-rates must be a rate from 100k to 1000G"),
        ("1M-5G", "--search-rates is for the path of a site lab"),
    ],
)
def test_search_rates_that_are_none(capsys: CapSys, tmp_path: Path, rates: str, complaint: str) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text('[gw1]\naddress = "192.0.2.1"\n[gw2]\naddress = "192.0.2.2"\n')
    lab = "netns" if "site lab" in complaint else f"site:{sites}"
    code, _, err = vpneval(capsys, "plan", "transport", "--lab", lab, "--search-rates", rates)
    assert (code, complaint in err) == (2, True)


def test_rounds_and_slices_are_options(tmp_path: Path) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text('[gw1]\naddress = "192.0.2.1"\n[gw2]\naddress = "192.0.2.2"\n')
    asked = request("transport", vpns="openvpn", profile="site", lab=f"site:{sites}", rounds=4, slice_s=0.5)
    assert (asked.profile.rounds, asked.profile.slice_s) == (4, 0.5)
    assert asked.profile.note.endswith("; changed: 4 rounds in each tunnel; changed: slices of TCP of 0.5 s")
    usual = request("transport", vpns="openvpn", profile="site", lab=f"site:{sites}")
    assert asked.expected_time()[1] < usual.expected_time()[1]
    hurried = request("transport", vpns="openvpn", slice_s=0.5, deadline_s=360).profile
    assert (hurried.rounds, hurried.slice_s) == (PROFILES["quick"].rounds, 0.5)
    assert "rounds in each tunnel" not in hurried.note


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("--rounds", "0"), "--rounds must be from 1 to 1000, not 0"),
        (("--rounds", "1001"), "--rounds must be from 1 to 1000, not 1001"),
        (("--rounds", "4", "--deadline", "6m"), "--rounds and --deadline both say how many rounds there are"),
        (("--slice", "0.09"), "--slice must be from 0.1 to 10 seconds, not 0.09"),
        (("--slice", "nan"), "--slice must be from 0.1 to 10 seconds, not nan"),
        (("--slice", "0.5", "--profile", "thesis"), "--slice is for profiles whose VPNs take turns (quick, site)"),
        (("--rounds", "4", "--duration", "5"), "--rounds is for profiles whose VPNs take turns (quick, site)"),
    ],
)
def test_rounds_and_slices_that_are_none(capsys: CapSys, given: tuple[str, ...], complaint: str) -> None:
    code, _, err = vpneval(capsys, "plan", "transport", "--vpn", "openvpn", *given)
    assert (code, complaint in " ".join(err.split())) == (2, True), err


@pytest.mark.parametrize(
    ("levels", "profile", "duration_s", "trials", "each_s"),
    [
        ("", "thesis", None, 10, 10.0),
        ("", "thesis", 2, 10, 2.0),
        ("search=iperf3", "thesis", None, 3, 1.0),
        ("search=iperf3", "quick", 5, 3, 5.0),
        ("search=binary", "quick", None, 10, 10.0),
        ("search=binary", "smallest", 3, 10, 3.0),
        ("search=scan", "quick", 4, 10, 4.0),
        ("search=bayes", "quick", 4, 1, 4.0),
        ("search=rfc2544", "thesis", 4, 1, 60.0),
        ("", "quick", None, 1, 0.3),
        ("", "quick", 5, 1, 0.3),  # of the generator, whose trials are as long as the profile says
    ],
)
def test_a_plan_says_once_how_long_the_trials_of_its_search_are(
    levels: str, profile: str, duration_s: int | None, trials: int, each_s: float
) -> None:
    asked = request("transport", vpns="openvpn", profile=profile, levels=levels, duration_s=duration_s)
    (search,) = {search_of(cell.params, asked.profile) for cell in asked.cells if cell.params["measure"] == "udp"}
    assert (search.trials, search.trial_s) == (trials, each_s)
    (said,) = searches(asked)
    assert f" {each_s:g} s" in said
    assert ("in turns" in said) == (asked.profile.rounds > 0 and not levels)
    assert "loss" not in asked.profile.note, "a profile's note speaks of no search: --set search may choose another"


def test_the_time_of_a_plan_follows_the_length_of_its_searches_trials() -> None:
    def expected_s(duration_s: int) -> float:
        return request(
            "transport", vpns="openvpn", levels="search=binary,measure=udp", duration_s=duration_s
        ).expected_time()[1]

    assert expected_s(3) - expected_s(2) == pytest.approx(expected_s(2) - expected_s(1))
    assert expected_s(2) - expected_s(1) > 100


@pytest.mark.parametrize("given", ["search=rfc2544,measure=udp", "measure=udp", "measure=idle"])
def test_a_duration_that_no_test_has_is_refused(capsys: CapSys, given: str) -> None:
    code, _, err = vpneval(capsys, "plan", "transport", "--vpn", "openvpn", "--set", given, "--duration", "4")
    assert (code, "--duration has no effect" in " ".join(err.split())) == (2, True), err


def test_help_names_what_the_options_take() -> None:
    assert options.PROFILE_NAMES.split(", ") == [*PROFILES]
    assert options.MOST_REPETITIONS == MOST_REPETITIONS


@pytest.mark.parametrize("words", [(), ("run",), ("report",), ("lab", "shell"), ("doctor",), ("list",)])
def test_help_shows_a_type_for_nothing_and_loads_nothing_large(words: tuple[str, ...]) -> None:
    """What is loaded decides how long --help takes: 0.09 s of CPU with this, 0.25 s with pydantic and rich, 0.9 s
    with everything."""
    show = "import sys\nfrom runner.cli.main import main\ntry:\n    main(sys.argv[1:])\nfinally:\n    "
    argv = [sys.executable, "-c", show + "print('loaded:', *sys.modules)", *words, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    text, loaded = done.stdout.split("loaded: ")
    assert "Usage: " in text
    assert "<bool>" not in text
    assert "<list" not in text
    assert not {"numpy", "scipy", "pydantic", "rich", "runner.catalogue"} & {*loaded.split()}


@pytest.mark.parametrize(("argv", "says"), [(("run", "nonsense"), "vpneval reads"), (("list", "x"), "vpneval reads")])
def test_the_first_line_comes_before_anything_large_is_loaded(argv: tuple[str, ...], says: str) -> None:
    lines = (
        "import sys",
        "from runner.cli import output",
        "from runner.cli.main import main",
        "sys.stderr.isatty = lambda: True",
        "said = []",
        "output.err.print = lambda text, **how: said.append((text, 'numpy' in sys.modules))",
        "try:",
        "    main(sys.argv[1:])",
        "finally:",
        "    print(*said[0], sep='|')",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), *argv], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    first, large = done.stdout.strip().split("|")
    assert first.startswith(says)
    assert large == "False"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_that_comes_while_an_object_is_cleared_away_ends_the_command(number: signal.Signals) -> None:
    """The interpreter prints and drops what is raised there."""
    lines = (
        "import os, time",
        "from runner.cli import main",
        "class Late:",
        "    def __del__(self):",
        f"        os.kill(os.getpid(), {number.value})",
        "        time.sleep(5)",
        "def works(arguments):",
        "    Late()",
        "    time.sleep(30)",
        "main._one_command = works",
        "main.main([])",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=25, check=False
    )
    assert done.returncode == 130
    assert done.stderr == "vpneval was interrupted. What was measured is safe.\n"


def test_plan_as_json(capsys: CapSys) -> None:
    argv = ("plan", "transport", "--vpn", "openvpn", "--reps", "2", "--json")
    for how, trials in (
        ((), 10),  # the baseline has its turns beside the VPN
        (("--duration", "1"), 10 + 2),  # the baseline again at the end of each block: one TCP stream, and idle
    ):
        code, out, err = vpneval(capsys, *argv, *how)
        assert (code, err) == (0, "")
        plan = json.loads(out)
        assert {cell["vpn"] for cell in plan["cells"]} == {"none", "openvpn"}  # the baseline is always beside it
        assert len(plan["cells"]) == 10
        assert plan["trials"] == 2 * trials
        assert plan["expected_s"] > plan["trials"]


def test_vpn_and_set_may_be_given_again_and_again(capsys: CapSys) -> None:
    def planned(*argv: str) -> list[dict[str, Any]]:
        code, out, err = vpneval(capsys, "plan", "transport", *argv, "--json")
        assert (code, err) == (0, "")
        return list(json.loads(out)["cells"])

    at_once = planned("--vpn", "openvpn,wireguard_go", "--set", "measure=tcp,streams=1,streams=4")
    one_by_one = ("--vpn", "openvpn", "--vpn", "wireguard_go", "--set", "measure=tcp", "--set", "streams=1,streams=4")
    assert planned(*one_by_one) == at_once
    assert {cell["vpn"] for cell in at_once} == {"none", "openvpn", "wireguard_go"}
    assert {(cell["params"]["measure"], cell["params"]["streams"]) for cell in at_once} == {
        ("tcp", "1"),
        ("tcp", "4"),
    }
    assert len(planned("--vpn", "openvpn,wireguard_go")) > len(at_once), "the control: all levels"


def test_plan_of_a_plugin_outside_the_tree(capsys: CapSys, nowhere: Path) -> None:
    (nowhere / "mine.py").write_text("from vpns.openvpn import OpenVpn\n\n\nclass Mine(OpenVpn):\n    title = 'mine'\n")
    code, out, _ = vpneval(capsys, "plan", "reference", "--vpn", "./mine.py", "--json")
    assert code == 0
    assert {cell["vpn"] for cell in json.loads(out)["cells"]} == {"none", "mine"}


def test_recipe(capsys: CapSys) -> None:
    code, out, err = vpneval(capsys, "recipe", "tinc")
    assert (code, err) == (0, "")
    assert "## Gateway gw1" in out
    needing = next(name for name in vpn_names() if load_vpn(name).beside)
    code, out, err = vpneval(capsys, "recipe", needing)
    assert (code, out) == (2, "")
    assert f"{needing} needs a {load_vpn(needing).beside} beside its gateways" in err


EXAMPLE = str(Path(__file__).parents[3] / "results" / "examples" / "two-cores-quick")


def test_the_recipe_of_a_run_has_its_levels_and_versions(capsys: CapSys) -> None:
    code, out, _ = vpneval(capsys, "recipe", "openvpn", "--run", EXAMPLE)
    versions = load_run(Path(EXAMPLE))[0].image["packages"]
    assert code == 0
    assert f"Measured were openssl {versions['openssl']}, openvpn {versions['openvpn']}." in out
    assert "cipher aes-256-gcm" in out
    assert "cipher 3des-cbc" in vpneval(capsys, "recipe", "openvpn", "--run", EXAMPLE, "--set", "cipher=3des-cbc")[1]


@pytest.mark.parametrize(
    ("vpn", "levels", "said"),
    [
        ("tinc", (), "openvpn, ssh_forward"),  # what was measured
        ("openvpn", ("--set", "cipher=aes-192-cbc"), "cipher=3des-cbc, integrity=hmac-sha256, compression=off"),
    ],
)
def test_what_a_run_has_not_measured_has_no_recipe_of_it(
    vpn: str, levels: tuple[str, ...], said: str, capsys: CapSys
) -> None:
    code, out, err = vpneval(capsys, "recipe", vpn, "--run", EXAMPLE, *levels)
    assert (code, out) == (2, "")
    assert said in err


def test_recipe_at_another_cipher_has_its_integrity(capsys: CapSys) -> None:
    _, out, _ = vpneval(capsys, "recipe", "openvpn", "--set", "cipher=aes-256-gcm")
    assert out.startswith("# OpenVPN (UDP): cipher aes-256-gcm, integrity aead, compression off\n")
    assert out == vpneval(capsys, "recipe", "openvpn")[1], "the makers' recommendation"
    assert "data-ciphers AES-256-GCM" in out
    assert "\nauth " not in out


@pytest.mark.parametrize(
    ("text", "value"), [("360", 360), ("90s", 90), ("6m", 360), ("2h", 7200), ("1.5m", 90), ("0.5", 0.5)]
)
def test_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0", "-5", "6 minutes", "m", "nan", "inf", "1e99", "5d"])
def test_seconds_refuses(text: str) -> None:
    with pytest.raises(UsageError, match="360, 90s, 6m or 2h"):
        seconds(text)


def test_the_installed_command() -> None:
    done = subprocess.run([Path(sys.executable).parent / "vpneval", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("vpneval 0.")
    done = subprocess.run([sys.executable, "-m", "runner", "plan", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("vpneval: unknown experiment 'nothing'")


def test_a_folder_of_runs_names_them(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").touch()
    with pytest.raises(UsageError, match=f"it has no run.json. Run folders near by: .*{tmp_path}/mine"):
        check_run_folder(tmp_path)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0, "1 s"), (0.4, "24 s"), (1.9, "114 s"), (13, "13 min"), (119.4, "119 min"), (130, "2 h"), (2905, "2 days")],
)
def test_a_long_time_is_told_in_hours_or_days(minutes: float, said: str) -> None:
    assert roughly(60 * minutes) == said
