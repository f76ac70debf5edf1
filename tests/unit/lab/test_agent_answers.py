"""An agent, or a machine in its place, that answers what no agent answers: the runner says so, and goes on."""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.data.errors import InstrumentError, LabError, MeasurementError
from runner.lab.node import held, probing
from runner.lab.node.commands import MOST_BYTES, Dialogue
from runner.lab.node.held import HeldNode
from runner.lab.node.lines import Lines
from runner.lab.places import agent, sent
from runner.lab.places.agent import Agent, AgentGoneError, AgentProcess
from runner.lab.places.connection import Connection

# Waits for a question, then says what it was given, and stays.
SAYS = "import os, sys, time; os.read(0, 1); os.write(1, bytes.fromhex(sys.argv[1])); time.sleep(60)"
ENDLESS = """import os, sys
os.read(0, 1)
while True: os.write(1, bytes.fromhex(sys.argv[1]) * 50)"""
ENTIRE = b'{"id": 1, "out": "hello", "err": "\\u00e9"}\n{"id": 1, "code": 0}\n'
MALFORMED = {
    "no JSON": b"hello\n",
    "a list": b"[1]\n",
    "a number": b"1\n",
    "null": b"null\n",
    "no id": b'{"code": 0}\n',
    "an unknown id": b'{"id": 99, "code": 0}\n',
    "an id that is text": b'{"id": "1", "code": 0}\n',
    "an id that is a list": b'{"id": [1], "code": 0}\n',
    "output that is a number": b'{"id": 1, "out": 7}\n',
    "output that is no Latin-1": b'{"id": 1, "out": "\\u20ac"}\n',
    "a lone surrogate": b'{"id": 1, "err": "\\ud800"}\n',
    "no UTF-8": b'{"id": 1, "out": "\xff"}\n',
    "a code that is text": b'{"id": 1, "code": "0"}\n',
    "a code that is a fraction": b'{"id": 1, "code": 0.5}\n',
    "more than an answer": b'{"id": 1, "code": 0, "please": "run this"}\n',
    "nested too deep": b"[" * 50_000 + b"\n",
    "an endless line": b"x" * 50_000,
}


def started(program: str, said: bytes = b"") -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", program, said.hex()], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def lines_of(holder: subprocess.Popen[str]) -> Lines:
    assert holder.stdout is not None
    return Lines(holder.stdout.fileno(), "gw1")


def spoken(program: str, said: bytes) -> tuple[Agent, subprocess.Popen[str], threading.Event]:
    holder, lost = started(program, said), threading.Event()
    spoken_to = Agent(holder, lines_of(holder))
    spoken_to.listen(lost.set)
    return spoken_to, holder, lost


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[Any]]]:
    """Processes that are killed when the test ends."""
    started_ones: list[subprocess.Popen[Any]] = []
    yield started_ones
    for process in started_ones:
        process.kill()
        process.wait()


def test_an_agents_answer_is_heard(ended: list[subprocess.Popen[Any]]) -> None:
    spoken_to, holder, lost = spoken(SAYS, ENTIRE)
    ended.append(holder)
    job = spoken_to.start("true")
    assert job.ended.wait(20)
    assert (job.code, job.text("out"), bytes(job.said["err"])) == (0, "hello", b"\xe9")
    assert not spoken_to.broken
    assert not lost.is_set()


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_answer_is_named_and_ends_all_waiting(what: str, ended: list[subprocess.Popen[Any]]) -> None:
    spoken_to, holder, lost = spoken(ENDLESS if what == "an endless line" else SAYS, MALFORMED[what])
    ended.append(holder)
    job = spoken_to.start("true")
    assert lost.wait(20), "the thread that listens has died"
    assert job.ended.is_set()
    assert job.code is None
    assert "no agent" in spoken_to.broken
    with pytest.raises(AgentGoneError):
        spoken_to.start("true")


def test_endless_output_is_bounded(ended: list[subprocess.Popen[Any]]) -> None:
    line = json.dumps({"id": 1, "out": "x" * 60_000}).encode() + b"\n"
    spoken_to, holder, _ = spoken(ENDLESS, line)
    ended.append(holder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = spoken_to.start("yes")
    assert job.ended.wait(60)
    assert job.too_much
    time.sleep(1)  # it goes on, and nothing of it is kept
    assert not any(job.said.values())
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib * 1024 < 4 * MOST_BYTES


def test_a_machine_that_takes_nothing_is_named(
    ended: list[subprocess.Popen[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "TAKES_WITHIN_S", 0.5)
    holder = started("import time; time.sleep(60)")
    ended.append(holder)
    spoken_to = Agent(holder, lines_of(holder))
    with pytest.raises(AgentGoneError):
        spoken_to.start("cat", input="x" * (1 << 20))
    assert "takes nothing" in spoken_to.broken
    assert not spoken_to.answers(0.1)


# Answers pings with its clock, which from the third one on is that of a machine that was suspended for 6 s.
SUSPENDED = """
import ctypes, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
for number, line in enumerate(iter(sys.stdin.readline, "")):
    if number == 2:
        assert libc.unshare(0x80) == 0, "CLONE_NEWTIME"
        open("/proc/self/timens_offsets", "w").write("monotonic -6 0")
        assert libc.setns(os.open("/proc/self/ns/time_for_children", os.O_RDONLY), 0x80) == 0
    print(json.dumps({"id": json.loads(line)["id"], "code": 0, "awake_s": time.monotonic()}), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/ns/time_for_children").exists() or os.geteuid() != 0, reason="time namespace")
def test_a_machine_that_was_suspended_is_noticed_by_its_clock(ended: list[subprocess.Popen[Any]]) -> None:
    spoken_to, holder, _ = spoken(SUSPENDED, b"")
    ended.append(holder)
    assert spoken_to.answers(20)
    assert spoken_to.answers(20)
    assert spoken_to.clock.stood_still_s == 0
    assert spoken_to.answers(20)
    assert spoken_to.clock.stood_still_s == pytest.approx(6, abs=1)


def test_a_command_that_is_not_ended_is_not_waited_for(ended: list[subprocess.Popen[Any]], tmp_path: Path) -> None:
    spoken_to, holder, _ = spoken("import time; time.sleep(60)", b"")
    ended.append(holder)
    process = AgentProcess(spoken_to.start("sleep", "60", log=tmp_path / "log"), tmp_path / "log", spoken_to.kill)
    began = time.monotonic()
    process.stop()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import time; time.sleep(60)", "did not come up within 1 s"),
        ("import os, time; os.write(1, b'12'); time.sleep(60)", "did not come up within 1 s"),
        ("import os\nwhile True: os.write(1, b'x' * 4096)", "did not come up"),
        ("print('²', flush=True)", "it says '²'"),
        ("print('-1', flush=True)", "it says '-1'"),
        ("import sys; sys.exit('no overlay here')", "no overlay here"),
        ("import os\nwhile True: os.write(2, b'x' * 4096)", "did not come up within 1 s"),
    ],
)
def test_a_node_that_does_not_come_up_is_named_in_time(
    program: str, says: str, monkeypatch: pytest.MonkeyPatch, ended: list[subprocess.Popen[Any]]
) -> None:
    monkeypatch.setattr(held, "READY_WITHIN_S", 1.0)
    monkeypatch.setattr(held, "LAST_WORDS_S", 1.0)
    holder = started(program)
    ended.append(holder)
    began = time.monotonic()
    with pytest.raises(LabError, match="node gw7 did not come up") as silent:
        HeldNode("gw7", lambda line: None, holder).wait_ready()
    assert says in str(silent.value)
    assert time.monotonic() - began < 15


def test_a_node_that_comes_up(ended: list[subprocess.Popen[Any]]) -> None:
    holder = started("import time; print(4711, flush=True); time.sleep(60)")
    ended.append(holder)
    node = HeldNode("gw7", lambda line: None, holder)
    node.wait_ready()
    assert node.pid == 4711


class Paper(Connection):
    """A connection to this machine's own Python, in the place of the machine."""

    def __init__(self, program: str) -> None:
        self.name, self.program, self.sudo = "gw1", program, ()

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        return [sys.executable, "-c", self.program]

    plain_argv = argv


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import time; time.sleep(60)", "nothing moved for 1 s"),
        ("import os\nwhile os.read(0, 65536): pass\nimport time; time.sleep(60)", "nothing moved for 1 s"),
        ("import os\nwhile os.read(0, 65536): pass\nwhile True: os.write(1, b'x' * 65536)", "more than 64 MiB"),
        ("import os\nwhile os.read(0, 65536): pass\nos.write(1, b'\\xff')", "what arrived there is not what was sent"),
        ("import sys; sys.exit('no space')", "no space"),
    ],
)
def test_a_machine_that_takes_no_image_is_named_in_time(
    program: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent, "STALLS_S", 1.0 if "nothing moved" in says else 60.0)
    (tmp_path / "file").write_bytes(os.urandom(4 << 20))
    began = time.monotonic()
    with pytest.raises(LabError, match="gw1: the image could not be sent") as lost:
        sent._send(Paper(program), tmp_path, "/nowhere", None)
    assert says in str(lost.value)
    assert time.monotonic() - began < 60


def test_an_image_that_arrives(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "file").write_bytes(os.urandom(1 << 20))

    class Here(Paper):
        def argv(self, *argv: str, tty: bool = False) -> list[str]:
            return list(argv)

    sent._send(Here(""), tmp_path / "image", str(tmp_path / "there"), None)
    assert (tmp_path / "there" / "file").read_bytes() == (tmp_path / "image" / "file").read_bytes()


def test_a_machine_that_does_not_stop_talking_is_named() -> None:
    with pytest.raises(LabError, match="gw1, asked ip link: it said more than 64 MiB"):
        Paper("import os\nwhile True: os.write(1, b'x' * 65536)").run("ip", "link", timeout=60)
    with pytest.raises(LabError, match="gw1 did not answer within 1 s"):
        Paper("import time; time.sleep(60)").run("ip", "link", timeout=1)
    assert Paper("print('here')").run("ip", "link").stdout == "here\n"


class Talking:
    """A node whose probes are a program of this machine."""

    name = "gw1"

    def __init__(self, program: str) -> None:
        self.program = program

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Nothing."""

    def talk(self, *argv: str) -> Dialogue:
        return Dialogue(started(self.program), self.name)

    def end(self, process: Dialogue) -> None:
        process.process.kill()


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import time; time.sleep(60)", "was not ready on gw1 within 1 s"),
        ("import os, time; os.write(1, b're'); time.sleep(60)", "was not ready on gw1 within 1 s"),
        ("import sys; sys.exit('no Python here')", "no Python here"),
        ("print('ready?', flush=True); import time; time.sleep(60)", "does not work on gw1"),
        ("print('ready', flush=True); input(); print('[1]')", "answers '[1]"),
        ("print('ready', flush=True); input(); print('[' * 200000)", "which is no answer"),
        ("print('ready', flush=True); input(); print('{')", "which is no answer"),
    ],
)
def test_a_probe_that_is_none_is_named_in_time(program: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "READY_WITHIN_S", 1.0)
    monkeypatch.setattr(probing, "LAST_WORDS_S", 1.0)
    began = time.monotonic()
    node: Any = Talking(program)
    with pytest.raises(MeasurementError, match="the probe tap") as wrong:  # noqa: SIM117
        with probing.probe(node, "tap", ready="ready") as running:
            probing.ask_probe(running, "tap", {}, 5.0)
    assert says in str(wrong.value)
    assert time.monotonic() - began < 20


def test_a_probe_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    node: Any = Talking("print('ready', flush=True); input(); print('{\"a\": 1}', flush=True); input(); print('{}')")
    with probing.probe(node, "tap", ready="ready") as running:
        assert probing.ask_probe(running, "tap", {}, 5.0) == {"a": 1}
        assert probing.answer(running, "tap") == {}
    endless: Any = Talking("print('ready', flush=True); input()\nwhile True: print('x' * 9999)")
    with probing.probe(endless, "tap", ready="ready") as running, pytest.raises(InstrumentError, match="MiB"):
        probing.answer(running, "tap", timeout_s=60)


ENDLESSLY = "import os, sys, time\nprint('ready', flush=True); sys.stdin.readline()\n"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("os.write(1, b'{'); time.sleep(60)", "did not answer within 1 s"),
        ("while True: os.write(1, b'x'); time.sleep(0.01)", "did not answer within 1 s"),
        ("while True: os.write(1, b'[' * 65536)", "a line without an end"),
        ("os.write(1, b'7\\n'); time.sleep(60)", "which is no answer"),
        ("os.write(1, b'\\xff\\n'); time.sleep(60)", "which is no answer"),
        ("sys.exit('out of memory')", "has died: out of memory"),
        ("os.close(1); time.sleep(60)", "has died"),
    ],
)
def test_a_probe_that_is_ready_and_then_lies_is_named_in_time(program: str, says: str) -> None:
    node: Any = Talking(ENDLESSLY + program)
    began = time.monotonic()
    with probing.probe(node, "tap", ready="ready") as running:
        with pytest.raises(MeasurementError, match="the probe tap on gw1") as wrong:
            probing.ask_probe(running, "tap", {}, 1.0)
        with pytest.raises(MeasurementError, match="the probe tap on gw1"):
            probing.hear_object(running, "tap", 0.1)
    assert says in str(wrong.value)
    assert time.monotonic() - began < 20


def test_what_a_probe_says_before_it_is_asked_is_not_lost() -> None:
    node: Any = Talking("print('ready\\n{\"a\": 1}\\n{\"a\": 2}\\n{', end='', flush=True); input(); print('}')")
    with probing.probe(node, "tap", ready="ready") as running:
        assert [probing.hear_object(running, "tap", 5)["a"] for _ in range(2)] == [1, 2]
        assert probing.answer(running, "tap") == {}


# Answers each command with 3 MB and its end, and then as its children that go on. The line's end comes last: what may
# be the beginning of a secret, of any test before this one, is kept back.
TALKS = """import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    for _ in range(60):
        print(json.dumps({"id": number, "out": "x" * 50_000}))
    print(json.dumps({"id": number, "code": 0}))
    print(json.dumps({"id": number, "out": "more\\n"}), flush=True)"""


def test_what_ended_commands_have_said_is_not_kept(ended: list[subprocess.Popen[Any]], tmp_path: Path) -> None:
    spoken_to, holder, lost = spoken(TALKS, b"")
    ended.append(holder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40):
        job = spoken_to.start("cat")
        assert job.ended.wait(20)
        assert len(job.text("out")) == 3_000_000
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mb < 60, "of 120 MB that were said"
    daemon = spoken_to.start("daemon", log=tmp_path / "log")
    assert daemon.ended.wait(20)
    assert spoken_to.answers(20)
    until = time.monotonic() + 20
    while not (tmp_path / "log").read_text().endswith("xmore\n"):
        assert time.monotonic() < until, "a daemon's children are logged"
        time.sleep(0.05)
    assert not lost.is_set()
