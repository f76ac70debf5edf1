"""No secret of any VPN leaves the process that made it: it is in no file of the run folder, not on the console, in no
argument vector and no environment; nor when a daemon says its key and dies, nor when the runner is killed.

The runs are real. A plugin file stands in front of each VPN and tells the test, outside of the run folder, what the
secrets are, and what every process of a gateway shows of itself.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.catalogue import vpn_names
from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import DEFAULT, Image, open_image
from tests.contract import ENVIRONMENTS, OLDER, forms, leaks
from tests.lab.commands import start, until, vpneval
from tests.lab.conftest import descendants, running

SPY = """
import json
from pathlib import Path
from runner.catalogue import load_vpn
class Spy(type(load_vpn({name!r}))):
    def secrets(self, ca, sites):
        made = super().secrets(ca, sites)
        with Path({told!r}, {name!r} + ".secrets").open("a") as file:
            file.write(json.dumps(made) + "\\n")
        return made
    def evidence(self, node, me, peers, params):
        for what in ("cmdline", "environ"):
            shown = node.run("sh", "-c", "cat /proc/[0-9]*/" + what, check=False).stdout
            with Path({told!r}, {name!r} + "." + what).open("a") as file:
                file.write(shown)
        return super().evidence(node, me, peers, params)
"""
NAMES = [name for name in vpn_names() if name != "none"]  # which has no secrets, and is measured in any case
# These are in the gate, one for each kind of keys: TLS, static ones, one in an environment, SSH, IKE.
# What is the plugin's own, whatever a run does with it, test_contract.py holds for every VPN.
GATE = ("openvpn", "wireguard_go", "n2n", "ssh_tun", "ipsec_user")


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a run folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shown(pid: int) -> dict[str, set[bytes]]:
    """The argument vectors and the environments of this process, and of all below it, on whatever node."""
    found: dict[str, set[bytes]] = {"cmdline": set(), "environ": set()}
    for one in {pid, *descendants(pid)}:
        for what, texts in found.items():
            with suppress(OSError):  # gone meanwhile
                texts.add(Path(f"/proc/{one}/{what}").read_bytes())
    return found


@dataclass
class Swept:
    """A run with all the VPNs, and what the plugin files in front of them have told."""

    out: Path
    told: Path
    console: str

    def secrets(self, name: str) -> dict[str, str]:
        lines = (self.told / f"{name}.secrets").read_text().splitlines()
        return {f"{number} {key}": text for number, line in enumerate(lines) for key, text in json.loads(line).items()}


@pytest.fixture(scope="module")
def runs(image: Image, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[bool, Swept]:
    """For the VPNs that the older image alone has, and for the others; of those that are tested in this session."""
    tests = (
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    )
    tested = {item.callspec.params.get("name") for item in tests if hasattr(item, "callspec")} | {"wireguard_go"}
    made = {}
    for older in (False, True):
        told = tmp_path_factory.mktemp("told")
        if not (names := [name for name in NAMES if (name in OLDER) is older and name in tested]):
            continue
        for name in names:
            (told / f"{name}.py").write_text(SPY.format(name=name, told=str(told)))
        if older:
            open_image("bookworm", say=print)
        out = told.parent / f"run-{older}"
        done = vpneval(
            *("run", "reference", "--profile", "smallest", "--out", out, "--image", "bookworm" if older else DEFAULT),
            *("--vpn", ",".join(str(told / f"{name}.py") for name in names)),
            timeout=560,
        )
        assert done.returncode in (0, 1), done.stderr
        made[older] = Swept(out, told, done.stdout + done.stderr)
    return made


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if name in GATE else []) for name in NAMES]
)
def test_no_secret_leaves_the_process(runs: dict[bool, Swept], name: str) -> None:
    run = runs[name in OLDER]
    trial = next(trial for trial in load_run(run.out)[1] if trial.vpn == name)
    if trial.status == "unsupported":
        pytest.skip(trial.reason)
    assert trial.status == "ok", trial.reason
    secrets = run.secrets(name)
    shown = {what: (run.told / f"{name}.{what}").read_bytes() for what in ("cmdline", "environ")}
    assert b"iperf3" in b"".join(files(run.out).values())
    assert b"PATH=" in shown["environ"], "something was seen"
    in_environment = leaks(secrets, {"environ": shown.pop("environ")})
    assert bool(in_environment) is (name in ENVIRONMENTS), in_environment
    assert not leaks(secrets, files(run.out) | shown | {"the console": run.console.encode()})


@pytest.mark.smoke
def test_no_secret_leaves_the_process_and_names_stand_for_keys_in_the_logs(runs: dict[bool, Swept]) -> None:
    (trial,) = [trial for trial in load_run(runs[False].out)[1] if trial.vpn == "wireguard_go"]
    logged = b"\n".join(files(runs[False].out / trial.log).values()).decode(errors="replace")
    assert "[gw1] wg setconf wg0 /etc/wireguard/wg0.conf" in logged
    assert {*re.findall(r"PrivateKey.*", logged)} == {"PrivateKey = <gw1.key>", "PrivateKey = <gw2.key>"}


# --- what goes wrong -----------------------------------------------------------------------------------------

KEYS = {
    "gw1.key": "q6Zt+XyB0mJkGfQ2n9eWc7sLr4HdVpUo1aTiNhYb3A8=",
    "a password": "Xq7$",
    "tls": "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg1x9vT5uJ3cKzYw8e\n"
    "-----END PRIVATE KEY-----\n",
}
WORDS = " ".join([*KEYS.values(), KEYS["gw1.key"].encode().hex(), KEYS["tls"].splitlines()[1]])
TOY = f"""
from runner.data.errors import ProofError
from vpns.none import PlainIp
KEYS, WORDS = {KEYS!r}, {WORDS!r}
class Toy(PlainIp):
    reference = False
    def secrets(self, ca, sites):
        MAKING
        return KEYS
    def start(self, node, me, peers, params):
        STARTING
        super().start(node, me, peers, params)
    def evidence(self, node, me, peers, params):
        found = super().evidence(node, me, peers, params)
        EVIDENCE
        return found
"""
DAEMON = """node.write("/etc/keys", WORDS)
        node.spawn("sh", "-c", "cat /etc/keys; echo toyd: cannot bind to port 7; exit 3", log="toyd")
        return"""
FAILURES = {
    "daemon": ("STARTING", DAEMON),  # nothing is routed, so that no payload comes
    "command": ("STARTING", 'node.run("sh", "-c", "echo $0 $1; exit 1", WORDS, KEYS["a password"])'),
    "complaint": ("STARTING", 'node.run("sh", "-c", "cat >&2; exit 1", input=WORDS)'),
    "late": ("STARTING", 'node.run("sh", "-c", "cat >&2; sleep 60", input=WORDS, timeout=0.5)'),
    "cut": ("STARTING", 'raise ProofError(node.run("cat", input=WORDS).stdout[-80:])'),
    "bug": ("STARTING", "raise ValueError(WORDS)"),
    "making": ("MAKING", 'ca.run("sh", "-c", "echo $0; exit 1", WORDS)'),
    "evidence": ("EVIDENCE", 'found.facts["keys"] = WORDS'),
}


def toy(folder: Path, name: str, place: str, code: str) -> Path:
    """The toy as a plugin file that does this there."""
    text = TOY.replace(place, code)
    for other in ("MAKING", "STARTING", "EVIDENCE"):
        text = text.replace(f"        {other}\n", "")
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


@dataclass
class Told:
    """A run with a toy for each failure: its folder, what was on the console, and what its processes have shown."""

    out: Path
    console: str = ""
    shown: dict[str, set[bytes]] = field(default_factory=lambda: {"cmdline": set(), "environ": set()})


CHATTY = """node.write("/etc/keys", WORDS)
        talk = "while :; do head -c 20 /etc/keys; sleep 0.01; tail -c +21 /etc/keys; echo; done"
        node.spawn("sh", "-c", talk, log="toyd")"""


def said(out: Path) -> list[bytes]:
    """What the toy's daemons on both gateways have said; nothing as long as one has no log."""
    logs = [path.read_bytes() for path in out.glob("logs/*chatty*/gw*-toyd.log")]
    return logs if len(logs) == 2 else []


@pytest.fixture
def killed(image: Image, tmp_path: Path) -> Iterator[Told]:
    """A run whose daemons say their keys all the time, and which was killed in the middle of it."""
    out = tmp_path / "run"
    plugin = toy(tmp_path, "chatty", "STARTING", CHATTY)
    process = start(out, "reference", "--profile", "smallest", "--duration", "8", "--vpn", plugin)
    try:
        until(process, lambda: bool(said(out)) and min(map(len, said(out))) > 2000, "the daemons' words in their logs")
        children, seen = descendants(process.pid), shown(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not running(children), "every process of the run gone")
        yield Told(out, shown=seen)
    finally:
        process.kill()
        process.wait()


@pytest.mark.smoke
def test_a_runner_that_is_killed_leaves_no_key(killed: Told) -> None:
    assert all(b"<gw1.key>" in log for log in said(killed.out)), "the logs are there all the same"
    seen = {what: b"\n".join(texts) for what, texts in killed.shown.items()}
    assert b"tail -c +21 /etc/keys" in seen["cmdline"], "the daemons were seen"
    assert not leaks(KEYS, files(killed.out) | seen)


def test_openvpn_whose_runner_is_killed_leaves_no_key(image: Image, tmp_path: Path) -> None:
    out, told = tmp_path / "run", tmp_path / "told"
    told.mkdir()
    (plugin := tmp_path / "openvpn.py").write_text(SPY.format(name="openvpn", told=str(told)))
    process = start(out, "reference", "--profile", "smallest", "--duration", "8", "--vpn", plugin)

    def up() -> bool:
        logs = [*out.glob("logs/*openvpn*/gw*-openvpn*.log")]
        return (told / "openvpn.environ").exists() and len(logs) >= 2 and all(path.read_bytes() for path in logs)

    try:
        until(process, up, "a tunnel of OpenVPN that stands")
        children = descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not running(children), "every process of the run gone")
    finally:
        process.kill()
        process.wait()
    secrets = Swept(out, told, "").secrets("openvpn")
    shown = {what: (told / f"openvpn.{what}").read_bytes() for what in ("cmdline", "environ")}
    assert secrets
    assert b"openvpn" in shown["cmdline"], "the daemons were seen"
    assert not leaks(secrets, files(out) | shown)


@pytest.mark.smoke
def test_the_sweep_finds_what_is_planted(lab: Lab, tmp_path: Path) -> None:
    key = KEYS["gw1.key"]
    (tmp_path / "logs").mkdir()
    for number, form in enumerate(sorted(forms(key))):
        (tmp_path / "logs" / f"{number}.log").write_bytes(b"\0\xff" + form + b"\n")
    assert set(leaks(KEYS, files(tmp_path))) == {f"gw1.key in logs/{number}.log" for number in range(4)}
    assert leaks(KEYS, {"pem": KEYS["tls"].encode()}) == ["tls in pem"] * 2
    lab.nodes["gw1"].spawn("env", f"KEY={key}", "sleep", "60", log="planted")
    lab.nodes["gw1"].spawn("sh", "-c", "sleep 60; :", key, log="planted")

    def seen() -> bool:
        shown = {
            what: lab.nodes["gw1"].run("sh", "-c", f"cat /proc/[0-9]*/{what}", check=False).stdout.encode()
            for what in ("cmdline", "environ")
        }
        return {"gw1.key in cmdline", "gw1.key in environ"} <= set(leaks(KEYS, shown))

    wait_until(seen, "the planted keys in an argument vector and an environment")


@pytest.mark.smoke
def test_what_is_public_is_no_leak() -> None:
    assert not leaks({"gw1.pub": KEYS["gw1.key"]}, {"a log": KEYS["gw1.key"].encode()})
