"""A plugin that is broken, in any of its methods, is told as such, and fails its own trials and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CommandError, LabError, PluginError, ProofError, UsageError, unfinished_methods
from runner.data.levels import NO_CIPHER
from runner.data.store import open_store
from runner.data.trials import Cell
from runner.design.profile import PROFILES
from runner.lab.shape.site_to_site import SITES
from runner.sweep.conductor import Conductor
from runner.sweep.settings import Stage
from runner.vpn import guard
from runner.vpn.plugin import Vpn
from tests.unit.asking import made_up
from tests.unit.helpers import Answers
from tests.unit.instruments.test_own_instrument import Watcher
from tests.unit.on_paper import Paper, Run, on_paper


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        yield made


GW1, GW2 = SITES
NODE: Any = Answers()
CALLS: dict[str, Callable[[Vpn], object]] = {
    "supports": lambda vpn: vpn.supports(NODE, NO_CIPHER),
    "secrets": lambda vpn: vpn.secrets(NODE, SITES),
    "render": lambda vpn: vpn.render(GW1, [GW2], NO_CIPHER, {}),
    "start": lambda vpn: vpn.start(NODE, GW1, [GW2], NO_CIPHER),
    "is_up": lambda vpn: vpn.is_up(NODE, GW1, [GW2]),
    "evidence": lambda vpn: vpn.evidence(NODE, GW1, [GW2], NO_CIPHER),
    "lifecycle": lambda vpn: vpn.lifecycle(),
    "encapsulation": lambda vpn: vpn.encapsulation(NO_CIPHER, 1400),
}
HEAD = """from runner.data.errors import *
from runner.data.trials import Evidence
from runner.vpn.lifecycle import *
from runner.vpn.plugin import *
from vpns.none import PlainIp
class Strange(Exception):
    def __str__(self):
        raise KeyError
class Mine(PlainIp):
"""
LINE = HEAD.count("\n") + 2


def plugin(folder: Path, body: str, name: str = "mine") -> Vpn:
    path = folder / f"{name}.py"
    path.write_text(HEAD + body)
    return load_vpn(str(path))


def broken(folder: Path, method: str, does: str) -> Vpn:
    return plugin(folder, f"    def {method}(self, *args, **named):\n        {does}\n")


ERRORS = (
    *(
        "ValueError('no')",
        "OSError(28, 'full')",
        "OSError(5, 'broken')",
        "SystemExit(0)",
        "GeneratorExit",
        "Strange",
        "RecursionError",
    ),
    *("MemoryError", "StopIteration", "BaseException('bare')", "UsageError('use me')"),
)


@pytest.mark.parametrize("method", CALLS)
def test_what_a_method_raises_names_file_line_and_method(tmp_path: Path, method: str) -> None:
    for error in ERRORS:
        said = rf"the plugin mine is broken: {method} in mine\.py, line {LINE}: {error.partition('(')[0]}"
        (folder := tmp_path / error).mkdir()
        with pytest.raises(PluginError, match=said):
            CALLS[method](broken(folder, method, f"raise {error}"))


@pytest.mark.parametrize("method", CALLS)
def test_a_recursion_without_end(tmp_path: Path, method: str) -> None:
    with pytest.raises(PluginError, match=rf"{method} in mine\.py, line {LINE}: RecursionError"):
        CALLS[method](broken(tmp_path, method, f"return type(self).{method}(self, *args, **named)"))


@pytest.mark.parametrize("method", CALLS)
def test_how_a_vpn_fails_is_no_fault_of_its_plugin(tmp_path: Path, method: str) -> None:
    ordinary = method in ("secrets", "start", "is_up", "evidence")
    for error, kind in (
        ("CommandError('gw1', ['ip', 'link'], 1, 'no')", CommandError),
        ("TimeoutError('late')", TimeoutError),
        ("ProofError('another cipher')", ProofError),
    ):
        with pytest.raises(kind if ordinary else PluginError):
            CALLS[method](broken(tmp_path, method, f"raise {error}"))
    with pytest.raises(LabError):
        CALLS[method](broken(tmp_path, method, "raise LabError('a node is gone')"))
    with pytest.raises(KeyboardInterrupt):
        CALLS[method](broken(tmp_path, method, "raise KeyboardInterrupt"))


ENDLESS = """import _thread, threading
        threading.Timer(0.05, _thread.interrupt_main).start()
        while True: pass"""  # the user waits, and presses Ctrl-C


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C does what it usually does, whatever tests before this one have left there."""
    others = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, others)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("method", CALLS)
def test_a_method_that_the_user_waited_for_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    endless, line = broken(tmp_path, method, ENDLESS), LINE + 2
    said = f": {method} of the plugin mine had not returned after 0 s (mine.py, line {line})"
    for long_s, words in ((10.0, ""), (0.0, said)):
        monkeypatch.setattr(guard, "LONG_S", long_s)
        with pytest.raises(KeyboardInterrupt) as ended:
            CALLS[method](endless)
        assert unfinished_methods(ended.value) == words


def test_of_methods_that_call_one_another_the_one_that_never_returns_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LONG_S", 0.0)
    asks = "    def start(self, *args):\n        self.is_up(*args[:3])\n"
    with pytest.raises(KeyboardInterrupt) as ended:
        CALLS["start"](plugin(tmp_path, asks + "    def is_up(self, *args):\n        raise KeyboardInterrupt\n"))
    assert unfinished_methods(ended.value).startswith(": is_up of the plugin mine had not returned after")


@pytest.mark.parametrize(
    ("method", "value", "said"),
    [
        ("supports", "'no'", "returned 'no'; it returns None, or Unsupported with a reason"),
        ("supports", "Unsupported(3)", "it returns None, or Unsupported"),
        ("secrets", "None", "returned a value of type NoneType; it returns a mapping of names to texts"),
        ("secrets", "['q6Zt+XyB0mJk']", "returned a value of type list"),
        ("secrets", "{'gw1.key': b'q6Zt+XyB0mJk'}", "returned a bytes for 'gw1.key'"),
        ("secrets", "{3: 'q6Zt+XyB0mJk'}", "returned a str for 3"),
        ("secrets", "{'a': '\\udcff'}", "for 'a' what UTF-8 has no bytes for"),
        ("render", "{'/etc/x': None}", "returned a NoneType for '/etc/x'"),
        ("render", "'text'", "returned a value of type str"),
        ("is_up", "None", "returned None; it returns True or False"),
        ("is_up", "'yes'", "returned 'yes'; it returns True or False"),
        ("evidence", "None", "returned None; it returns Evidence"),
        ("evidence", "Evidence().model_copy(update={'cipher': 3})", "Evidence whose cipher is 3"),
        ("evidence", "Evidence().model_copy(update={'facts': {1: 2}})", "Evidence whose facts"),
        ("lifecycle", "None", "returned None; it returns a Lifecycle"),
        ("lifecycle", "Lifecycle(timers=[])", "it returns a Lifecycle"),
        ("lifecycle", "Lifecycle(standby='x')", "a standby that is 'x'"),
        ("encapsulation", "[1]", "it returns None, or the layers"),
        ("encapsulation", "{'outer': '20'}", "it returns None, or the layers"),
    ],
)
def test_what_a_method_returns_is_checked(tmp_path: Path, method: str, value: str, said: str) -> None:
    with pytest.raises(PluginError) as told:
        CALLS[method](broken(tmp_path, method, f"return {value}"))
    assert f"the plugin mine is broken: {method} in mine.py returned " in str(told.value)
    assert said in str(told.value)
    assert "q6Zt" not in str(told.value)


def test_an_error_while_keys_are_made_is_told_without_its_text(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=rf"secrets in mine\.py, line {LINE}: ValueError$"):
        CALLS["secrets"](broken(tmp_path, "secrets", "raise ValueError('q6Zt+XyB0mJk')"))


@pytest.mark.parametrize(
    ("lifecycle", "call", "method"),
    [
        (
            "Lifecycle(Rekeying(('esp',), renew=wrong))",
            lambda one: one.rekeying.renew(NODE, [], "esp"),
            "rekeying.renew",
        ),
        ("Lifecycle(Rekeying(('clock',), mark=wrong))", lambda one: one.rekeying.mark(NODE, []), "rekeying.mark"),
        (
            "Lifecycle(standby=Standby('', '', '', prepare=wrong))",
            lambda one: one.standby.prepare(NODE),
            "standby.prepare",
        ),
    ],
)
def test_the_functions_of_a_lifecycle_are_guarded(
    tmp_path: Path, lifecycle: str, call: Callable[[Any], object], method: str
) -> None:
    body = "    def lifecycle(self):\n        def wrong(*_):\n            raise KeyError('x')\n"
    body += f"        return {lifecycle}\n"
    with pytest.raises(PluginError, match=rf"{method} in mine\.py, line {LINE + 1}: KeyError: 'x'"):
        call(plugin(tmp_path, body).lifecycle())


def test_the_line_of_a_plugin_that_another_is_made_of(tmp_path: Path) -> None:
    broken(tmp_path, "start", "return self.nothing")
    (tmp_path / "second.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "from mine import Mine\nclass Second(Mine):\n    title = 'x'\n"
    )
    with pytest.raises(PluginError, match=rf"plugin second is broken: start in mine\.py, line {LINE}: AttributeError"):
        CALLS["start"](load_vpn(str(tmp_path / "second.py")))


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("title = 3", "title is 3"),
        ("dataplane = 'magic'", "dataplane is 'magic'.*'kernel' or 'userspace'"),
        ("transport = None", "transport is None"),
        ("transport = 'pigeons'", "transport is 'pigeons', where 'esp', .* or 'ethernet' is valid"),
        ("carries = 'pigeons'", "carries is 'pigeons'"),
        ("reference = 'no'", "reference is 'no'"),
        ("ports = 4500", "ports is 4500"),
        ("ports = '4500/udp'", "ports is '4500/udp', which is no list of ports"),
        ("family = 3", "family is 3, where a string is valid"),
        ("speaks = 7", "speaks is 7"),
        ("beside = 'two words'", "beside is 'two words', which is no word"),
        ("copies_marks = 'no'", "copies_marks is 'no', where a boolean is valid"),
        ("sign = None", "sign is None, where an instance of Sign is valid"),
        ("build = 'new'", "build is 'new'"),
        ("family = 3; dataplane = 'cloud'", "family is 3, .*; dataplane is 'cloud', where 'kernel' or 'userspace'"),
        ("modules = ['esp4']", r"modules is \['esp4'\]"),
        ("outer_ipv6 = 'no'", "outer_ipv6 is 'no'"),
        ("inner_ipv6 = 'no'", "inner_ipv6 is 'no'"),
        ("note = b'x'", "note is b'x'"),
        ("software = {}", "software is {}"),
        ("software = Software(tools=['ip'])", r"software.tools is \['ip'\]"),
        ("software = Software(daemons='x')", "software.daemons is 'x'"),
        ("software = Software(dials='x')", "software.dials is 'x'"),
        ("offers = 'all'", "offers is 'all'"),
        ("offers = Offers({'none': 3})", "offers.ciphers.none is 3"),
        ("offers = Offers(ike='x')", "offers.ike is 'x'"),
        ("comparable = 'aes'", "comparable is 'aes'"),
        ("comparable = {}", r"comparable is \{\}, where a level of each of cipher, .* is valid"),
        ("recommended = {'cipher': 3}", "recommended.cipher is 3"),
        ("declared = 'secure'", "declared is 'secure'"),
        ("start = 3", "start is 3, not a method"),
        ("is_up = None", "is_up is None, not a method"),
        ("title = property(lambda self: 1 / 0)", "cannot be made: line 10: ZeroDivisionError"),
    ],
)
def test_a_class_attribute_of_a_wrong_type_is_refused(tmp_path: Path, attribute: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plugin(tmp_path, f"    {attribute}\n")


# --- in a run ----------------------------------------------------------------------------------------------------


def test_a_plugin_that_breaks_while_its_tunnel_stands_fails_its_own_trials(run: Run) -> None:
    def breaks(bench: Paper) -> None:
        raise PluginError("the plugin openvpn is broken: lifecycle in openvpn.py, line 7: KeyError: 'x'")

    run.world.wrong["openvpn", 3] = breaks
    assert run().failed == 1
    trial = run.trials["openvpn"]
    assert (trial.status, trial.reason) == (
        "failed",
        "the plugin openvpn is broken: lifecycle in openvpn.py, line 7: KeyError: 'x'",
    )
    assert run.rounds("ipsec_user") == run.rounds("none") == [1, 2, 3, 4, 5, 6]


def test_a_plugin_that_breaks_as_its_instrument_cleans_up(run: Run) -> None:
    class Worse(dict[str, int]):
        def __getitem__(self, key: str) -> int:
            raise PluginError("the plugin openvpn is broken")

    def breaks(bench: Paper) -> None:
        run.world.closed = Worse()  # type: ignore[assignment]
        raise PluginError("the plugin openvpn is broken")

    run.world.wrong["openvpn", 2] = breaks
    run()
    assert run.trials["openvpn"].status == "failed"
    assert {"openvpn", "none", "ipsec_user"} == {*run.trials}


def cell(vpn: str) -> Cell:
    return Cell(vpn=vpn, params={**NO_CIPHER, "measure": "tcp"})


@pytest.mark.parametrize("does", ["raise ValueError('no')", "raise TimeoutError('late')", "return 3"])
def test_a_plugin_that_does_not_say_what_it_supports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    lab: Any = SimpleNamespace(sites=SITES, gateway=lambda site: NODE, path=None, images=())
    rig = SimpleNamespace(lab=lambda *_, **__: nullcontext(lab))
    profile = PROFILES["quick"]
    image: Any = None
    stage = Stage(request=made_up(profile), image=image, rig=cast(Any, rig))
    monkeypatch.setattr("runner.lab.shape.wan.conditions_refusal", lambda *_: None)
    monkeypatch.setattr("runner.sweep.supported.level_refusal", lambda *_: None)
    vpns = {"none": load_vpn("none"), "mine": broken(tmp_path, "supports", does)}
    with open_store(tmp_path / "run") as store:
        loop = Conductor(store, vpns, [cell("mine"), cell("none")], stage, Watcher(), {})
        for _ in range(2):  # the second time as a resumed run: its line is written once
            assert loop.probe(set()) == {cell("mine").key}
        assert [trial.status for trial in store.trials] == ["failed"]
        assert store.trials[0].reason.startswith("the plugin mine is broken: supports in mine.py")
        loop.stage = replace(stage, request=made_up(profile, retry_failed=True))
        vpns["mine"] = load_vpn("none")
        assert loop.probe(set()) == set()
