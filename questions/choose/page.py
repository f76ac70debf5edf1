"""The data with which the page answers anew for other needs, as JSON: the draws of each VPN, what is known of its
musts, and the words. choice.js repeats the rule of runner/choice and the sentences of words.py;
tests/browser compares both on the same draws."""

from __future__ import annotations

import base64
import gzip
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from questions.choose import must_words, state_words, words
from questions.choose.blocks import next_steps
from questions.choose.judgement import Choice
from runner.choice import answer as rule
from runner.choice.device import DRAWS, Curve, Device, ManyTcp
from runner.choice.devices import DROPPED_BITS
from runner.choice.grade import FULL, LASTING, LOWEST, RESERVATIONS, WATCHED
from runner.choice.model import RATES_BPS
from runner.choice.musts import WORDS
from runner.choice.reliability import FEWEST_ATTEMPTS, Z_ONE_SIDED, Z
from runner.choice.thresholds import USUAL
from runner.data import named
from runner.evidence.intervals import Array
from runner.report import text
from runner.report.plots.drawing import colours as palette

SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)  # of datagrams: the rows of one map
PATHS_MS = (0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 50.0)  # round trips: the rows of the other


def context(choice: Choice, where: str) -> dict[str, Any]:
    """What the card shows, for readers without a script. ``where``: the run folder, as commands name it."""
    said = choice.answer
    steps = {step.word: step.command for step in next_steps(choice, where)}
    first = said.candidate_of(said.named[0]) if said and said.named else None
    return {
        "headline": words.page_headline(choice),
        "seen": words.seen_path(choice),
        "assumed": words.asked_for(choice.needs),
        "lines": words.lines(choice),
        "stated": said is not None,
        "why_not": words.why_not(said) if said else [],
        "changed": words.change_clauses(choice),
        "first": first.vpn if first else "",
        "musts": list(first.musts.items()) if first else [],
        "kin": words.kin(choice),
        "failed": words.failure_sentences(choice),
        "absent": choice.absent,
        "partly": choice.partly,
        "recipe": steps.get("Set it up", ""),
        "more": steps.get("Be surer", ""),
        "known": [(must, [choice.states[vpn][must].word for vpn in choice.devices]) for must in named.MUSTS],
        "vpns": list(choice.devices),
        "traffics": named.TRAFFICS,
        "connections": named.CONNECTIONS,
        "all_musts": named.MUSTS,
        "map_lines": [_rate(line) for line in RATES_BPS],
    }


def data(choice: Choice, where: str, logs: Mapping[str, str], colours: Mapping[str, str]) -> dict[str, Any]:
    """The draws and the words, for the script. ``logs``: trial -> its folder of logs; ``colours``: VPN -> its own."""
    packer = Packer()
    packed = {vpn: _device(device, packer) for vpn, device in choice.devices.items()}
    known = {vpn: choice.states.get(vpn, {}) for vpn in choice.devices}
    return {
        "folder": shlex.quote(where),
        "draws": DRAWS,
        "packed": packer.pack(),
        "devices": packed,
        "needs": choice.needs.model_dump(mode="json"),
        "calm": choice.machine.calm,
        "disturbed": choice.machine.is_disturbed,
        "thresholds": asdict(USUAL),
        "rule": {name: getattr(rule, name) for name in ("SURE", "PROBABLE", "POSSIBLE", "HALF")}
        | {"reservations": RESERVATIONS, "lasting": LASTING, "watched": WATCHED, "lowest": LOWEST}
        | {"z": (Z, Z_ONE_SIDED), "fewest": FEWEST_ATTEMPTS}
        | {"FULL": FULL, "rates": RATES_BPS, "fulfilled": rule.FULFILLED, "changing": rule.CHANGING}
        | {"losses": rule.LOSSES},
        "musts": named.MUSTS,
        "usual": named.USUAL,
        "traffics": named.TRAFFICS,
        "connections": named.CONNECTIONS,
        "words": {vpn: {must: WORDS.index(state.word) for must, state in own.items()} for vpn, own in known.items()},
        "states": WORDS,
        "shows": {
            vpn: {
                must: [
                    must_words.sentence(vpn, must, state),
                    must_words.command(vpn, must) if state.word == "unknown" else "",
                    f"./{logs[state.trial]}/commands.log" if state.trial in logs and not state.run else "",
                ]
                for must, state in own.items()
            }
            for vpn, own in known.items()
        },
        "kin": [[one.vpn, one.kernel, one.lacks] for one in choice.kin],
        "say": {
            "traffic": words.TRAFFIC,
            "reserved": words.RESERVED,
            "must": words.MUST_CHANGED,
            "phrases": must_words.PHRASES,
            "what": words.WHAT,
            "limits": words.LIMITS,
            "reckoned": words.RECKONED,
            "one_way": words.ONE_WAY,
            "one_at_a_time": words.ONE_AT_A_TIME,
            "connections": words.CONNECTIONS,
            "many": words.MANY,
            "means": words.MUST_MEANS,
            "take": words.TAKE,
            "none_suits": words.NONE_SUITS,
            "band": words.BAND,
            "nothing": words.NOTHING,
            "unknown": words.UNKNOWN,
            "on_line": words.ON_LINE,
            "forbidden": state_words.no_answer(choice),
        },
        "shares": SHARES,
        "paths": PATHS_MS,
        "colours": {**palette([*choice.devices]), **colours},
    }


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:g} {unit}"


class Packer:
    """Draws as floating-point numbers of 24 bits, which is what devices keep (runner/choice/devices.py)."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, np.dtype[np.uint32]]] = []

    def add(self, draws: Array | None) -> int | None:
        """Keep the draws; return the number of the array, None where there are none."""
        if draws is None:
            return None
        self.arrays.append((draws.astype("<f4").view("<u4") >> DROPPED_BITS).astype("<u4"))
        return len(self.arrays) - 1

    def pack(self) -> str:
        """All arrays, their first bytes, then their second, then their third, as gzip in base64."""
        bits = np.concatenate(self.arrays) if self.arrays else np.zeros(0, "<u4")
        planes = b"".join((bits >> shift & 255).astype(np.uint8).tobytes() for shift in (16, 8, 0))
        return base64.b64encode(gzip.compress(planes, 9, mtime=0)).decode()


def _device(device: Device, packer: Packer) -> dict[str, Any]:
    return {
        "tcp_bps": packer.add(device.tcp_bps),
        "udp_bps": packer.add(device.udp_bps),
        "calls_bps": packer.add(device.calls_bps),
        "down_bps": packer.add(device.down_bps),
        "both_bps": packer.add(device.both_bps),
        "many": _many(device.many, packer) if device.many else None,
        "rtt_added_ms": packer.add(device.rtt_added_ms),
        "setup_s": packer.add(device.setup_s),
        "payload_bytes": device.payload_bytes,
        "at_least": sorted(device.at_least),
        "growth": {kind: factor for kind, factor in device.growth.items() if math.isfinite(factor)},
        "breakdown_bps": device.breakdown_bps,
        "one_connection": device.one_connection,
        "on_path": [asdict(one) for one in device.on_path],
        "window_bytes": device.window_bytes,
        "own_gateways": device.own_gateways,
        "path_bps": device.path_bps,
        "path_down_bps": device.path_down_bps,
        "by_datagrams": device.by_datagrams,
        "full_core_bps": device.full_core_bps,
        "real": device.real,
        "trials": device.trials,
        "failed": device.failed,
        "attempts": {
            kind: [[one.rate_bps, *one.own, one.late, *one.control, one.control_late] for one in rungs]
            for kind, rungs in device.attempts.items()
        },
        "watched": asdict(device.watched) if device.watched else None,
        "plain_watched": asdict(device.plain_watched) if device.plain_watched else None,
        "curves": {kind: _curve(curve, packer) for kind, curve in device.curves.items()},
    }


def _many(many: ManyTcp, packer: Packer) -> dict[str, Any]:
    draws = {name: packer.add(getattr(many, name)) for name in ("tcp_bps", "down_bps", "both_bps")}
    return draws | ({"growth": many.growth} if math.isfinite(many.growth) else {})


def _curve(curve: Curve, packer: Packer) -> Mapping[str, Any]:
    drawn = {name: getattr(curve, name) for name in ("cores", "loss_ratio", "delay_ms")}
    return {
        "rates_bps": [float(rate) for rate in curve.rates_bps],
        "carried": [bool(carried) for carried in curve.carried],
        **{name: [packer.add(column) for column in draws.T] for name, draws in drawn.items()},
    }
