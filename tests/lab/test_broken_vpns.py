"""VPNs whose daemons do not start or die, and broken plugins: each fails its own trials, and the sweep goes on."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.lab.software.image import Image
from runner.vpn.guard import LONG_S
from tests.contract import leaks
from tests.lab.commands import start, trials_of, until, vpneval
from tests.lab.conftest import descendants, running
from tests.lab.test_secrets import FAILURES, KEYS, Told, files, shown
from tests.lab.test_secrets import toy as telling

HEAD = """
from runner.data.levels import AES_CBC, NO_CIPHER
from runner.vpn.plugin import Offers, Vpn
from runner.data.trials import Evidence
from vpns.none import PlainIp
class Toy(PlainIp):
    reference = False
"""
NEVER_STARTS = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        node.spawn("sh", "-c", "echo toyd: cannot bind to port 7; exit 3", log="toyd")
"""
)
LEAKS = (
    HEAD
    + """
    offers = Offers({"aes-128-cbc": "says so"}, {"hmac-sha256": "says so"})
    comparable = recommended = AES_CBC
    def evidence(self, node, me, peers, params):
        return Evidence(cipher="AES-128-CBC", integrity="SHA256", compression="off", data_path="kernel: says so")
"""
)
ADMITS = (
    HEAD
    + """
    offers = Offers({"aes-128-cbc": "says so"}, {"hmac-sha256": "says so"})
    comparable = recommended = AES_CBC
"""
)
MAGIC = (
    HEAD
    + """
    dataplane = "userspace"
"""
)
# The routes, which are this toy's tunnel, go when a megabyte has come from the near host: under load, and not while the
# tunnel is still being proven.
DIES = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        super().start(node, me, peers, params)
        if me.number == 1:
            wait = "until [ $(cat /sys/class/net/lan0/statistics/rx_bytes) -gt 1000000 ]; do sleep 0.1; done"
            node.spawn("sh", "-c", f"{wait}; echo toyd: dying now; ip route del 10.2.0.0/24", log="toyd")
"""
)
NO_EVIDENCE = (
    HEAD
    + """
    def evidence(self, node, me, peers, params):
        return Evidence()
"""
)


def toy(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


BROKEN = {
    "leaks": (LEAKS, "plaintext on the WAN"),
    "no_evidence": (NO_EVIDENCE, "no evidence of the data path"),
    "admits": (ADMITS, "asked for cipher aes-128-cbc, and the evidence says 'none'"),
    "magic": (MAGIC, "the plugin's data plane is userspace, and its evidence says 'kernel: IP forwarding'"),
}


@pytest.fixture(scope="module")
def swept(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """One sweep over VPNs that are broken, each in its own way, over some that tell their keys as they fail, and one
    that is well."""
    folder = tmp_path_factory.mktemp("broken")
    plugins = [toy(folder, name, text) for name, (text, _) in BROKEN.items()]
    plugins += [telling(folder, name, *change) for name, change in FAILURES.items()]
    run, end = Told(folder / "run"), time.monotonic() + 500
    names = ",".join([*map(str, plugins), "wireguard_go"])
    process = start(run.out, "reference", "--profile", "smallest", "--vpn", names)
    try:
        while process.poll() is None and time.monotonic() < end:
            for what, texts in shown(process.pid).items():
                run.shown[what] |= texts
            time.sleep(0.05)
        run.console = "".join(process.communicate(timeout=10))
        assert process.returncode == 1, run.console
        yield run
    finally:
        process.kill()
        process.wait()


@pytest.mark.smoke
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_vpn_fails_and_the_sweep_goes_on(swept: Told, name: str) -> None:
    (trial,) = trials_of(swept.out, name)
    assert (trial.status, trial.measurements) == ("failed", [])
    assert BROKEN[name][1] in trial.reason
    assert [trial.status for trial in trials_of(swept.out, "wireguard_go")] == ["ok"]
    assert "Traceback" not in swept.console


@pytest.mark.smoke
@pytest.mark.parametrize("name", FAILURES)
def test_a_broken_vpn_that_tells_its_keys(swept: Told, name: str) -> None:
    (trial,) = trials_of(swept.out, name)
    assert trial.status == ("ok" if name == "evidence" else "failed"), trial.reason
    mine = b"".join([trial.model_dump_json().encode(), *files(swept.out / trial.log).values()])
    assert not leaks(KEYS, {"its line and logs": mine})
    if name != "making":
        assert b"<gw1.key>" in mine, "it has told them"
    if name == "daemon":
        assert "no payload came through the tunnel within" in trial.reason
        assert "toyd: cannot bind to port 7" in trial.reason, "the daemon's last words are in the reason"
        assert "gw1: the plugin says that the tunnel is up, but toyd has ended with exit status 3" in trial.reason


@pytest.mark.smoke
def test_a_broken_vpn_that_tells_its_keys_tells_them_nowhere(swept: Told) -> None:
    assert "command" in swept.console
    assert not leaks(KEYS, files(swept.out) | {"the console": swept.console.encode()})


@pytest.mark.smoke
def test_a_broken_vpn_that_tells_its_keys_shows_them_in_no_process(swept: Told) -> None:
    """But for the commands into which two of the toys have put theirs."""
    others = {words for words in swept.shown["cmdline"] if b"echo $0" not in words}
    seen = {"cmdline": b"\n".join(others), "environ": b"\n".join(swept.shown["environ"])}
    assert b"/run/vpneval/answer.py" in seen["cmdline"], "the nodes' processes were seen"
    assert b"PATH=" in seen["environ"]
    assert not leaks(KEYS, seen)


BREAKS = {
    "supports": "raise ValueError('no')",
    "secrets": "return ['k']",
    "render": "raise SystemExit(0)",
    "start": "raise OSError(28, 'full')",
    "is_up": "raise MemoryError",
    "evidence": "raise RecursionError",
    "lifecycle": "return None",
}


def test_plugins_that_are_broken_beside_one_that_is_not(image: Image, tmp_path: Path) -> None:
    """In rounds, where all stand together: each fails its own trials."""
    out = tmp_path / "run"
    for method, does in BREAKS.items():
        toy(tmp_path, f"b_{method}", f"{HEAD}    def {method}(self, *args, **named):\n        {does}\n")
    names = ",".join([*(str(tmp_path / f"b_{method}.py") for method in BREAKS), "wireguard_go"])
    argv = ("run", "transport", "--profile", "quick", "--reps", "1", "--vpn", names, "--out", out)
    done = vpneval(*argv, "--set", "measure=tcp,streams=1,direction=forward")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    for method in BREAKS:
        (failed,) = trials_of(out, f"b_{method}")
        assert failed.status == "failed"
        assert failed.reason.startswith(f"the plugin b_{method} is broken: {method} in b_{method}.py")
    for name in ("wireguard_go", "none"):
        (whole,) = trials_of(out, name)
        rate = next(found for found in whole.measurements if found.metric == "tcp_throughput")
        assert (whole.status, len(rate.samples)) == ("ok", 8), whole.reason


@pytest.mark.parametrize("method", ["secrets", "is_up"])
def test_a_plugin_that_never_returns_ends_with_the_run_and_is_named(image: Image, tmp_path: Path, method: str) -> None:
    out, begun = tmp_path / "run", tmp_path / "begun"
    body = f"        open({str(begun)!r}, 'w').close()\n        while True: pass\n"
    plugin = toy(tmp_path, "endless", f"{HEAD}    def {method}(self, *args):\n{body}")
    process = start(out, "reference", "--profile", "smallest", "--vpn", plugin)
    try:
        until(process, begun.exists, "the plugin at work")
        time.sleep(LONG_S + 1)
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said
    named = rf"interrupted: {method} of the plugin endless had not returned after \d+ s \(endless\.py, line 10\)"
    assert re.search(rf"vpneval: {named}; \d trials are safe in ", said)
    assert re.fullmatch(named, load_run(out)[0].invocations[-1].outcome)
    wait_until(lambda: not running(children), "every process of the run gone")
    assert re.search(f"The run did not end as planned: {named}", " ".join(vpneval("report", out).stdout.split()))


def test_a_tunnel_that_dies_while_it_is_measured(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = vpneval(
        *("run", "reference", "--profile", "smallest", "--duration", "6", "--out", out),
        *("--vpn", f"{toy(tmp_path, 'dies', DIES)},wireguard_go"),
    )
    assert done.returncode == 1
    failed = trials_of(out, "dies")
    assert [trial.status for trial in failed] == ["failed"]
    assert "the tunnel carries no payload any more" in failed[0].reason
    assert "toyd: dying now" in failed[0].reason
    assert failed[0].duration_s < 25
    assert [trial.status for trial in trials_of(out, "wireguard_go")] == ["ok"]


@pytest.mark.smoke
def test_lab_shell_gives_a_live_tunnel(image: Image) -> None:
    done = vpneval("lab", "shell", "host1", "--vpn", "wireguard_go", "-c", "ping -c 1 -W 1 10.2.0.2")
    assert done.returncode == 0, done.stderr
    assert "1 received" in done.stdout


@pytest.mark.smoke
def test_a_lab_shell_that_is_killed_ends_as_a_shell_says_it(image: Image) -> None:
    done = vpneval("lab", "shell", "host1", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL, done.stderr


DIED = [
    "never_starts did not come up: no payload came through the tunnel within",
    "gw1: the plugin says that the tunnel is up, but toyd has ended with exit status 3",
    "gw1-toyd.log: toyd: cannot bind to port 7",
]
RAISES = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        raise KeyError("no such thing")
"""
)


@pytest.mark.parametrize(
    ("name", "text", "code", "says"),
    [
        ("never_starts", NEVER_STARTS, 1, DIED),
        ("raises", RAISES, 2, ["the plugin raises is broken: start in raises.py, line 10: KeyError: 'no such thing'"]),
    ],
)
def test_lab_shell_says_why_a_plugin_never_comes_up(
    image: Image, tmp_path: Path, name: str, text: str, code: int, says: list[str]
) -> None:
    done = vpneval("lab", "shell", "gw1", "--vpn", toy(tmp_path, name, text), "-c", "true")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not [one for one in says if one not in done.stderr], done.stderr
