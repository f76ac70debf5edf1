"""No secret is in a text that others may read, in whatever form and whatever pieces it comes."""

from __future__ import annotations

import base64
import os
import random
import re
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from runner.data.errors import UsageError
from runner.lab.node import wait_until
from runner.lab.node.logs import LogFile, LogPipe, settle
from runner.lab.redaction import Redaction, is_public

KEY = "q6Zt+XyB0mJkGfQ2n9eWc7sLr4HdVpUo1aTiNhYb3A8="  # as of `wg genkey`
HEX = "6f1c9a0e77d24b8355ae01cc94b7d3f2"
BODY = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg1x9vT5uJ3cKzYw8e"
PEM = f"-----BEGIN PRIVATE KEY-----\n{BODY}\nQm9yaW5nRW5kTGluZQ\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Redaction:
    """What the logs of this test hide."""
    fresh = Redaction()
    fresh.learn({"gw1.key": KEY, "psk": HEX, "pin": "7b#x", "tls.key": PEM})
    monkeypatch.setattr("runner.lab.node.logs.KNOWN", fresh)
    return fresh


def raw(text: str) -> bytes:
    return base64.b64decode(text)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"key={KEY};", "key=<gw1.key>;"),
        (f"{KEY}{KEY}", "<gw1.key>"),
        (f"{KEY} {HEX} 7b#x.", "<gw1.key> <psk> <pin>."),
        (f"private_key={raw(KEY).hex()}", "private_key=<gw1.key>"),  # wireguard-go(8)'s UAPI
        (f"{HEX.upper()} {HEX.encode().hex()}", "<psk> <psk>"),
        (base64.b64encode(bytes.fromhex(HEX)).decode(), "<psk>=="),
        (base64.b64encode(HEX.encode()).decode(), "<psk>="),
        ("pin " + b"7b#x".hex(), "pin <pin>"),
        (PEM.splitlines()[1], "<tls.key>"),
        (PEM.splitlines()[2], "<tls.key>"),
        (PEM[28:].replace("\n", "\\n"), "<tls.key>\\n<tls.key>\\n-----END PRIVATE KEY-----\\n"),
        (f"cut off: {KEY[:24]}", "cut off: <gw1.key>"),
        (f"cut off: {KEY[:20]}", f"cut off: <gw1.key>{KEY[16:20]}"),
        (f"{KEY[4:]} cut off", f"{KEY[4:16]}<gw1.key> cut off"),
        ("", ""),
        ("no secret, ümläut \udcff", "no secret, ümläut \udcff"),
    ],
)
def test_a_text_without_secrets(known: Redaction, said: str, shown: str) -> None:
    assert known.text(said) == shown


def test_nothing_is_hidden_that_is_no_secret() -> None:
    known = Redaction()
    public = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n-----END CERTIFICATE-----\n"
    known.learn({"gw1.pub": KEY, "ca": public, "zeros.key": "0" * 20 + HEX})
    for text in (KEY, public, "0" * 400, "0000 0000", HEX[:4]):
        assert known.text(text) == text


def test_a_round_number_at_the_end_is_no_secret_that_was_cut_off() -> None:
    known = Redaction()
    hexadecimal = "0000000008677732" + HEX[:32]  # an OpenSSH key whose last byte is zero has such a piece
    known.learn({"gw2.user.key": hexadecimal})
    for text in ("at most 1000000000", "at most 00000000", "000000000"):
        assert known.text(text) == text
    for text in (f"key {hexadecimal[:12]}", f"key {hexadecimal[:16]} and so on"):
        assert "key <gw2.user.key>" in known.text(text)


@pytest.mark.parametrize(
    ("name", "text", "public"),
    [
        ("gw1.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", True),
        ("gw1", "-----BEGIN NEBULA CERTIFICATE-----\nMIIB\n-----END NEBULA CERTIFICATE-----", True),
        ("gw1", "-----BEGIN RSA PUBLIC KEY-----\nMIIB\n-----END RSA PUBLIC KEY-----\n", True),
        ("gw1.pub", KEY, True),
        ("gw1", KEY, False),
        ("gw1.crt", PEM, False),
        ("bundle.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" + PEM, False),
        ("gw1", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\npassword", False),
    ],
)
def test_what_is_public(name: str, text: str, public: bool) -> None:
    assert is_public(name, text) is public


def test_a_word_that_is_too_short_is_refused_as_a_secret() -> None:
    with pytest.raises(UsageError, match=r"^the secret pin has 3 characters\. One of fewer than 4 cannot be kept out"):
        Redaction().learn({"pin": " abc\n"})


def test_what_is_in_lists_and_mappings(known: Redaction) -> None:
    assert known.data({KEY: [f"a {HEX}", 1, 2.5, None, ("7b#x",)]}) == {
        "<gw1.key>": ["a <psk>", 1, 2.5, None, ["<pin>"]]
    }
    assert known.data({3: {("7b#x",): 1}}) == {3: {("7b#x",): 1}}  # keys that are no text stay


SECRETS = (KEY, HEX, "7b#x", PEM.splitlines()[1], raw(KEY).hex())


def test_pieces_of_any_size_give_the_same_as_the_whole(known: Redaction) -> None:
    once = re.compile(rb"(<[a-z0-9.]+>)\1+")  # pieces of one secret that came apart are named again
    for seed in range(300):
        chance = random.Random(seed)
        words = [*SECRETS, KEY[:20], HEX[:3], "\n", "7b", "plain words "]
        whole, said, rest = "".join(chance.choices(words, k=chance.randint(1, 12))).encode(), b"", b""
        ends = sorted({0, len(whole), *chance.sample(range(len(whole)), min(len(whole), chance.randint(0, 12)))})
        for start, end in pairwise(ends):
            clean, rest = known.cut(rest + whole[start:end], more=True)
            said += clean
        said += known.cut(rest, more=False)[0]
        assert not any(secret.encode() in said for secret in SECRETS), seed
        at_once, nothing = known.cut(whole, more=False)
        assert not nothing
        assert once.sub(rb"\1", said) == once.sub(rb"\1", at_once), seed


def speaker(log: Path, program: str) -> subprocess.Popen[bytes]:
    """A program whose output goes through a pipe into ``log``."""
    pipe = LogPipe(log)
    process = subprocess.Popen([sys.executable, "-uc", program], stdout=pipe.entry, stderr=subprocess.STDOUT)
    pipe.follow()
    return process


def test_a_log_has_what_was_said_by_now_and_no_key_though_it_came_in_two_pieces(
    known: Redaction, tmp_path: Path
) -> None:
    halves = f"import sys; print('key {KEY[:20]}', end=''); sys.stdin.read(1); print('{KEY[20:]}'); print('end')"
    pipe = LogPipe(tmp_path / "gw1-d.log")
    with subprocess.Popen(
        [sys.executable, "-uc", halves], stdin=subprocess.PIPE, stdout=pipe.entry, stderr=subprocess.STDOUT
    ) as process:
        pipe.follow()

        def said() -> str:
            settle()
            return (tmp_path / "gw1-d.log").read_text()

        wait_until(lambda: said() == "key <gw1.key>", "the first half")  # as much of it as makes a piece
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.close()
        process.wait()
        assert said() == "key <gw1.key><gw1.key>\nend\n", "all is there as soon as it has ended"


def test_the_last_words_of_a_daemon_that_dies_are_in_its_log(known: Redaction, tmp_path: Path) -> None:
    process = speaker(tmp_path / "d.log", f"import os; print('{HEX[:12]}', end=''); os.kill(os.getpid(), 9)")
    process.wait()
    settle()
    assert (tmp_path / "d.log").read_text() == "<psk>"


def test_a_daemon_that_says_much_is_not_held_up_and_all_is_there(known: Redaction, tmp_path: Path) -> None:
    process = speaker(tmp_path / "d.log", "print(('x' * 99 + '\\n') * 50_000, end='')")
    assert process.wait(30) == 0
    settle()
    assert (tmp_path / "d.log").stat().st_size == 5_000_000


def following() -> list[str]:
    """The threads that follow a pipe; each closes its own as it ends."""
    return [thread.name for thread in threading.enumerate() if "_follow" in thread.name]


def test_pipes_and_threads_go_with_the_daemon(known: Redaction, tmp_path: Path) -> None:
    wait_until(lambda: not following(), "those of other tests gone")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        speaker(tmp_path / f"{number}.log", "print('said')").wait()
    wait_until(lambda: not following(), "all threads gone")
    assert len(os.listdir("/proc/self/fd")) == before
    assert [path.read_text() for path in sorted(tmp_path.glob("*.log"))] == ["said\n"] * 5


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "gw1-d.log").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a symbolic link to "):
        LogFile(tmp_path / "gw1-d.log")
    assert (tmp_path / "mine").read_text() == "mine"
