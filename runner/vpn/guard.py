"""Between the runner and a plugin: whatever a plugin raises or returns against its contract is a ``PluginError``.

It names the plugin's file, line and method, so that a broken plugin fails its own trials and nothing else.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from runner.data.errors import (
    CommandError,
    LabError,
    MeasurementError,
    PluginError,
    ProofError,
    Unsupported,
    UsageError,
)
from runner.data.foreign import caught
from runner.data.kinds import SAID
from runner.data.store import DISK
from runner.data.trials import Evidence
from runner.lab.node import PATIENCE
from runner.vpn.lifecycle import HandOver, Lifecycle, Rekeying, Standby, Timer
from runner.vpn.plugin import Vpn

# How a VPN may fail where it is set up and asked: these say it themselves. Elsewhere they are a plugin's mistakes.
ORDINARY = (CommandError, MeasurementError, ProofError, TimeoutError)
IN_LIFE = ("rekeying.renew", "rekeying.mark", "standby.prepare")
MAY_FAIL = ("secrets", "start_beside", "start", "is_up", "evidence", *IN_LIFE)
MOST_CHARACTERS = 1000  # of what an exception says
LONG_S = 10.0  # a method that was ended by Ctrl-C after this time, times PATIENCE, is named


# The class attributes of a plugin, by their annotations.
_ATTRIBUTES: dict[str, Any] = {
    name: (get_args(kind)[0], ...) for name, kind in get_type_hints(Vpn, include_extras=True).items()
}
_CONFIG = ConfigDict(strict=True, revalidate_instances="always")
_Attributes = create_model("_Attributes", __config__=_CONFIG, **_ATTRIBUTES)


def guard(vpn: Vpn) -> Vpn:
    """The same plugin, its methods under guard. Raises UsageError for class attributes that their annotations do not
    allow, and for a method that is none."""
    _check_attributes(vpn)
    for method, checked in RETURNS.items():
        if not callable(bound := getattr(vpn, method)):
            raise UsageError(f"plugin {vpn.name}: {method} is {bound!r:.60}, not a method")
        setattr(vpn, method, _guard_method(vpn, method, bound, checked))
    return vpn


def in_words(broken: BaseException, files: list[Path], *, silent: bool = False) -> str:
    """An error of a plugin in words, with the innermost line that it comes from in one of its ``files``.

    ``silent``: without its text, which may have a key in it."""
    if isinstance(broken, SyntaxError):
        return f"{_line(broken.lineno)}{type(broken).__name__}: {broken.msg}"
    places = _places(broken, files)
    text = "" if silent else f": {_text(broken)}"
    return f"{_line(places[-1][1] if places else None)}{type(broken).__name__}{text}"


def file_of(kind: type) -> Path:
    """The file that a class is in."""
    return Path(sys.modules[kind.__module__].__file__ or "")


def files_of(plugin: type[Vpn]) -> list[Path]:
    """The files of a plugin's class, and of those that it is made of; its own is the first."""
    own = [kind for kind in plugin.__mro__ if kind.__module__.partition(".")[0] not in ("builtins", "abc", "runner")]
    return list(dict.fromkeys(file_of(kind) for kind in own))


def _check_attributes(vpn: Vpn) -> None:
    try:
        _Attributes.model_validate({name: getattr(vpn, name) for name in _ATTRIBUTES})
    except ValidationError as wrong:
        raise UsageError(f"plugin {vpn.name}: {'; '.join(map(_mistake, wrong.errors(include_url=False)))}") from None


def _mistake(error: ErrorDetails) -> str:
    """``dataplane is 'cloud', where 'kernel' or 'userspace' is valid``."""
    given = f"{'.'.join(map(str, error['loc']))} is {error['input']!r:.60}"
    if said := SAID.get(error.get("ctx", {}).get("pattern", "")):
        return f"{given}, which {said}"
    valid = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ").replace("a valid ", "a ")
    return f"{given}, where {valid} is valid"


def _guard_method(
    vpn: Vpn, method: str, bound: Callable[..., Any], checked: Callable[[Vpn, Any], Any]
) -> Callable[..., Any]:
    """``bound`` with its errors and results checked. A default stays: by it the runner knows what a plugin lacks."""
    if bound in (Rekeying.renew, Rekeying.mark, Standby.prepare):
        return bound

    @wraps(bound)
    def call(*args: Any, **named: Any) -> Any:
        began = time.monotonic()
        try:
            with caught(partial(_blame, vpn, method)):
                result = bound(*args, **named)
        except KeyboardInterrupt as ended:  # by the user
            if (took_s := time.monotonic() - began) >= LONG_S * PATIENCE:
                ended.add_note(_describe_unfinished(vpn, method, ended, took_s))
            raise
        try:
            return checked(vpn, result)
        except (TypeError, ValueError) as wrong:
            file = files_of(type(vpn))[0].name
            raise PluginError(f"the plugin {vpn.name} is broken: {method} in {file} returned {wrong}") from wrong

    return call


def _blame(vpn: Vpn, method: str, broken: BaseException) -> None:
    if _is_ordinary(broken, vpn, method):
        raise broken
    raise PluginError(_describe_broken(vpn, method, broken)) from broken


def _is_ordinary(broken: BaseException, vpn: Vpn, method: str) -> bool:
    """Is it no mistake of the plugin: a VPN that fails, a broken lab or a full disk; or one that is reported
    already?"""
    if isinstance(broken, LabError | PluginError):
        return True
    if isinstance(broken, OSError) and broken.errno in DISK:
        innermost = Path(traceback.extract_tb(broken.__traceback__)[-1].filename)
        return innermost.resolve() not in [file.resolve() for file in files_of(type(vpn))]  # or it raises it itself
    return isinstance(broken, ORDINARY) and method in MAY_FAIL


def _describe_broken(vpn: Vpn, method: str, broken: BaseException) -> str:
    files = files_of(type(vpn))
    places = _places(broken, files)
    name = places[-1][0].name if places else files[0].name
    return f"the plugin {vpn.name} is broken: {method} in {name}, {in_words(broken, files, silent=method == 'secrets')}"


def _describe_unfinished(vpn: Vpn, method: str, ended: KeyboardInterrupt, took_s: float) -> str:
    places = _places(ended, files_of(type(vpn)))
    where = f" ({places[-1][0].name}, line {places[-1][1]})" if places else ""
    return f"{method} of the plugin {vpn.name} had not returned after {took_s:.0f} s{where}"


def _places(broken: BaseException, files: list[Path]) -> list[tuple[Path, int | None]]:
    """Where in these files an error has passed, the innermost last."""
    known = {file.resolve(): file for file in files}
    frames = [(Path(frame.filename).resolve(), frame.lineno) for frame in traceback.extract_tb(broken.__traceback__)]
    return [(known[path], line) for path, line in frames if path in known]


def _line(number: int | None) -> str:
    return f"line {number}: " if number else ""


def _text(broken: BaseException) -> str:
    texts = list[str]()
    with caught(lambda worse: texts.append(f"(its text cannot be made: {type(worse).__name__})")):
        texts.append(str(broken)[:MOST_CHARACTERS])
    return texts[0]


# --- what methods return ---------------------------------------------------------------------------------------------


def _anything(vpn: Vpn, result: Any) -> Any:
    return result


def _refusal(vpn: Vpn, result: Any) -> Unsupported | None:
    if result is not None and not (isinstance(result, Unsupported) and isinstance(result.reason, str)):
        raise TypeError(f"{result!r:.60}; it returns None, or Unsupported with a reason")
    return result


def _texts(vpn: Vpn, result: Any) -> dict[str, str]:
    """An error names types only, because a text may be a key."""
    if not isinstance(result, Mapping):
        raise TypeError(f"a value of type {type(result).__name__}; it returns a mapping of names to texts")
    for name, text in result.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"a {type(text).__name__} for {name!r:.60}; it returns a mapping of names to texts")
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name + text):
            raise ValueError(f"for {name!r:.60} what UTF-8 has no bytes for")
    return dict(result)


def _yes_or_no(vpn: Vpn, result: Any) -> bool:
    if not isinstance(result, bool):
        raise TypeError(f"{result!r:.60}; it returns True or False")
    return result


def _evidence(vpn: Vpn, result: Any) -> Evidence:
    if not isinstance(result, Evidence):
        raise TypeError(f"{result!r:.60}; it returns Evidence")
    try:
        return Evidence.model_validate(dict(result))
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        raise TypeError(f"Evidence whose {'.'.join(map(str, first['loc']))} is {first['input']!r:.60}") from None


def _layers(vpn: Vpn, result: Any) -> dict[str, int] | None:
    if result is None:
        return None
    right = isinstance(result, dict) and all(
        isinstance(name, str) and type(size) is int for name, size in result.items()
    )
    if not right:
        raise TypeError(f"{result!r:.60}; it returns None, or the layers' names with their bytes")
    layers: dict[str, int] = result
    return layers


def _lifecycle(vpn: Vpn, result: Any) -> Lifecycle:
    """The lifecycle, with its functions under guard, too."""
    right = isinstance(result, Lifecycle) and isinstance(result.rekeying, Rekeying) and isinstance(result.timers, tuple)
    if not right or not all(isinstance(timer, Timer) for timer in result.timers):
        raise TypeError(f"{result!r:.60}; it returns a Lifecycle of a Rekeying, Timers and a Standby")
    lifecycle: Lifecycle = result
    rekeying, standby = lifecycle.rekeying, lifecycle.standby
    rekeying = replace(
        rekeying,
        renew=_guard_method(vpn, "rekeying.renew", rekeying.renew, _anything),
        mark=_guard_method(vpn, "rekeying.mark", rekeying.mark, _text_only),
    )
    if standby is not None:
        if not isinstance(standby, Standby) or not isinstance(standby.hand_over, HandOver | None):
            raise TypeError(f"a standby that is {standby!r:.60}, not a Standby")
        over = standby.hand_over
        if over is not None:
            files = _guard_method(vpn, "hand_over.files", over.files, _texts)
            over = replace(
                over, files=files, has_state=_guard_method(vpn, "hand_over.has_state", over.has_state, _yes_or_no)
            )
        standby = replace(
            standby, hand_over=over, prepare=_guard_method(vpn, "standby.prepare", standby.prepare, _anything)
        )
    return replace(lifecycle, rekeying=rekeying, standby=standby)


def _text_only(vpn: Vpn, result: Any) -> str:
    if not isinstance(result, str):
        raise TypeError(f"{result!r:.60}; it returns a text")
    return result


def _plugin(vpn: Vpn, made: Any) -> Vpn:
    """The same plugin in another way of working, under guard, too."""
    if not isinstance(made, Vpn):
        raise TypeError(f"{type(made).__name__}, not a plugin")
    return made if made is vpn or "render" in vars(made) else guard(made)  # which has its methods there


# The methods of the contract, each with the check of what it returns.
RETURNS: dict[str, Callable[[Vpn, Any], Any]] = {
    "supports": _refusal,
    "secrets": _texts,
    "render": _texts,
    "render_beside": _texts,
    "start_beside": _anything,
    "start": _anything,
    "is_up": _yes_or_no,
    "evidence": _evidence,
    "lifecycle": _lifecycle,
    "encapsulation": _layers,
    "with_fallback": _plugin,
    "as_hub": _plugin,
}
