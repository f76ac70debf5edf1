"""What a trial tells beside its numbers, as data that reports read; words are made of it at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from runner.data.kinds import Line, Real, Strict, Text

# breakdown: the tunnel carried nothing any more under a load of ``subject``, from ``value`` in ``unit`` offered.
# no payload: it carried nothing any more when something had failed. steal, throttled, slow clock: what the machine did.
# no value: there is none of the metric whose title ``subject`` is, ``why``. no kernel: the kernel lacks
# what the VPN needs. tcp only: the VPN carries nothing else. not offered: the plugin does not offer the trial's level,
# ``why``; ``subject`` lists what it offers.
Kind = Literal[
    "breakdown",
    "no payload",
    "steal",
    "throttled",
    "slow clock",
    "no value",
    "no kernel",
    "tcp only",
    "not offered",
]
# A trial with one of these has its reason.
IN_REASON: tuple[Kind, ...] = ("no payload", "no kernel", "tcp only", "not offered")
NOISE: tuple[Kind, ...] = ("steal", "throttled", "slow clock")


class Remark(Strict):
    """A remark of a trial. ``subject``: the machines (empty for the runner's own), the load, or the metric's title in
    the middle of a sentence. ``value``: in ``unit``, or the share (0 to 1) that was passed."""

    kind: Kind
    subject: Text = ""
    value: Real = 0.0
    unit: Line = ""
    why: Text = ""

    def __str__(self) -> str:
        return f"noise: {self.words}" if self.kind in NOISE else self.words

    @property
    def words(self) -> str:
        """The remark in words."""
        return WORDS[self.kind](self)

    @property
    def load(self) -> str:
        """Of a breakdown: the load, and the rate from which it broke the tunnel."""
        value, unit = (self.value / 1e6, "Mbit/s") if self.unit == "bit/s" else (self.value, self.unit)
        said = f"{value:.0f}" if value >= 10 else f"{value:.2g}"  # of less than half a unit nothing would be left
        return f"{self.subject} from {said} {unit} offered"


def _of_subject(subject: str) -> str:
    return f" of {subject}" if subject else ""


WORDS: Mapping[Kind, Callable[[Remark], str]] = {
    "breakdown": lambda it: "the tunnel broke down under " + it.load.replace(" from ", ", from "),
    "no payload": lambda _: LOST,
    "steal": lambda it: f"more than {100 * it.value:.0f} % of the CPU time{_of_subject(it.subject)} was stolen",
    "throttled": lambda it: f"the CPU{_of_subject(it.subject)} was throttled",
    "slow clock": lambda it: f"no loaded core ran at even {100 * it.value:.0f} % of its highest frequency",
    "no value": lambda it: f"no {it.subject}: {it.why}",
    "no kernel": lambda _: "this kernel lacks what it needs",
    "tcp only": lambda _: "carries TCP only",
    "not offered": lambda it: f"{it.why} (offered: {it.subject})",
}
LOST = "the tunnel carries no payload any more"


def breakdown_remarks(subject: str, rates: Sequence[float], unit: str = "bit/s") -> list[Remark]:
    """The remark on a tunnel that broke down at these offered rates; none where there is no rate."""
    return [Remark(kind="breakdown", subject=subject, value=min(rates), unit=unit)] if rates else []


# --- Trials of vpneval until November 2026, which have sentences instead ---

_UNDER = re.compile(r"the tunnel broke down under (\S+), from (\d+) (\S+) offered")
_STOLEN = re.compile(r"noise: more than (\d+) % of the CPU time(?: of (.+))? was stolen")
_THROTTLED = re.compile(r"noise: the CPU(?: of (.+))? was throttled")
_SLOW = re.compile(r"noise: no loaded core ran at even (\d+) % of its highest frequency")
_KERNEL = re.compile(r"kernel|netlink|Operation not supported|Unknown device", re.IGNORECASE)
_OFFERED = re.compile(r"(.*) \(asked: [^;)]*; offered: (.*)\)", re.DOTALL)
_NO_VALUE = re.compile(r"no ([^:]+): (.*)", re.DOTALL)


def of_older(reason: str, warnings: Sequence[str], unsupported: bool = False) -> tuple[list[str], list[Remark]]:
    """The warnings that no code reads, and the remarks, of a trial that has both as sentences."""
    left, remarks = [], [Remark(kind="no payload")] * (LOST in reason)
    if unsupported and "TCP only" in reason:
        remarks.append(Remark(kind="tcp only"))
    elif unsupported and _KERNEL.search(reason):
        remarks.append(Remark(kind="no kernel"))
    if unsupported and (found := _OFFERED.fullmatch(reason)):
        remarks.append(Remark(kind="not offered", subject=found[2], why=found[1]))
    for sentence in warnings:
        if found := _UNDER.fullmatch(sentence):
            scale, unit = (1e6, "bit/s") if found[3] == "Mbit/s" else (1.0, found[3])
            remarks.append(Remark(kind="breakdown", subject=found[1], value=scale * int(found[2]), unit=unit))
        elif found := _STOLEN.fullmatch(sentence):
            remarks.append(Remark(kind="steal", subject=found[2] or "", value=int(found[1]) / 100))
        elif found := _THROTTLED.fullmatch(sentence):
            remarks.append(Remark(kind="throttled", subject=found[1] or ""))
        elif found := _SLOW.fullmatch(sentence):
            remarks.append(Remark(kind="slow clock", value=int(found[1]) / 100))
        elif found := _NO_VALUE.fullmatch(sentence):
            remarks.append(Remark(kind="no value", subject=found[1], why=found[2]))
        else:
            left.append(sentence)
            remarks += [Remark(kind="no payload")] * (LOST in sentence)
    return left, remarks
