"""Under which conditions two systems may be compared: the same kind of crypto driver, and a link that is the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Literal

from runner.data.levels import BASELINE, LEVELS, TCP
from runner.data.trials import Trial
from runner.papers.claims import KERNEL_ESP
from runner.papers.findings import Blocks, Data, Judgement, Kind, NotMeasured
from runner.papers.scales import plane_of

Judge = Callable[[Data], Judgement]
FILLED = 0.9  # of a link's rate: plain TCP that carries as much is limited by the link
OTHER_DRIVERS = (
    "the kernel and OpenSSL each chose a crypto driver of their own, which is part of this ratio; "
    "--set driver=generic or driver=accelerated measures both by the same kind"
)
ALIKE = {
    "generic": "what encrypts does so by generic C code",
    "accelerated": "what encrypts does so by the CPU's instructions",
}
USUAL_INTEGRITY = "hmac-sha256"  # that all VPNs are compared at; the thesis states none
NO_INSTRUCTIONS = "the paper's CPUs had instructions for AES, for which User Mode Linux has no driver"
NO_LINK = (
    "the link is not what limits plain IP here, as it was there: --set wan_rate_bps=1000000000, or machines with a "
    "link of their own (--lab ssh:)"
)


def by_one_driver(judge: Judge) -> Judge:
    """``judge``, where the systems that decide encrypt by one kind of crypto driver.

    The kernel and OpenSSL each choose a driver of their own: in a guest kernel, ESP has generic C code while OpenSSL
    has the CPU's instructions, and a ratio of the two compares two implementations of AES. Systems of one data plane
    decide as they are. Systems of two are compared where the run has both with the same level of the factor
    ``driver``; else their number is shown without a verdict."""

    def judge_alike(data: Data) -> Judgement:
        try:
            natural = judge(data)
        except NotMeasured as missing:
            natural = missing.judgement
        if natural.systems and len(_planes(data, natural)) < 2:
            return natural
        measured = {trial.params.get("driver") for trial in data.trials}
        for driver in filter(measured.__contains__, LEVELS["driver"]):
            try:
                alike = judge(data.with_driver(driver))
            except NotMeasured as missing:
                natural = natural if natural.systems else missing.judgement
                continue
            if alike.systems:
                own = f"each with its own driver {natural.number}" if natural.systems else ""
                shown = {"beside": "; ".join(filter(None, (alike.beside, own)))}
                return alike.model_copy(update={"note": alike.note or ALIKE[driver], **shown})
        if not natural.systems or natural.kind == "scale":
            return natural
        return unlike(natural, "drivers", OTHER_DRIVERS)

    return judge_alike


def by_any_driver(judge: Judge) -> Judge:
    """``judge`` of one VPN against itself at other levels: by the driver that it chose, or, where the run has none of
    these cells, by one that was chosen for it."""

    def judge_any(data: Data) -> Judgement:
        try:
            return judge(data)
        except NotMeasured as missing:
            measured = {trial.params.get("driver") for trial in data.trials}
            for driver in filter(measured.__contains__, LEVELS["driver"]):
                with suppress(NotMeasured):
                    return judge(data.with_driver(driver)).model_copy(update={"note": f"with driver={driver}"})
            raise missing from None

    return judge_any


def unlike(judgement: Judgement, kind: Kind, reason: str) -> Judgement:
    """The number without a verdict, because two studies cannot be compared in it."""
    return judgement.model_copy(
        update={"verdict": "incomparable", "kind": kind, "reason": reason, "longer": None, "chance": None}
    )


def with_instructions(judge: Judge) -> Judge:
    """``judge`` of what a paper explains by the CPU's AES instructions: without a verdict in User Mode Linux, whose
    kernel has no driver for them."""

    def judge_instructions(data: Data) -> Judgement:
        judgement = judge(data)
        if data.run.lab.get("guest") != "uml" or judgement.verdict == "unmeasured":
            return judgement
        return unlike(judgement, "instructions", NO_INSTRUCTIONS)

    return judge_instructions


def says_its_driver(judge: Judge) -> Judge:
    """``judge`` of what cryptography costs IPsec beside its other work: in User Mode Linux, whose kernel has no driver
    for the CPU's instructions, the judgement says by what code."""

    def judge_with_note(data: Data) -> Judgement:
        judgement = judge(data)
        if data.run.lab.get("guest") != "uml" or KERNEL_ESP not in judgement.systems or judgement.note:
            return judgement
        return judgement.model_copy(update={"note": ALIKE["generic"]})

    return judge_with_note


def on_files(judge: Judge, *, compared: bool = False) -> Judge:
    """The ``judge``'s verdict on the data of ``by_files``."""
    return lambda data: judge(by_files(data, compared))


def by_files(data: Data, compared: bool) -> Data:
    """The data as if its tests of compression were those that sent the thesis' files, where the run has such tests
    (`--set transfer=file`). ``compared``: also the test without compression that these are compared with."""
    if "file" not in data.levels("transfer"):
        return data
    filed = {(trial.vpn, *_but_transfer(trial).items()) for trial in data.trials if "transfer" in trial.params}
    trials = []
    for trial in data.trials:
        if "transfer" not in trial.params:
            if not (compared and (trial.vpn, *_but_transfer(trial).items()) in filed):
                trials.append(trial)
        elif compared or trial.params["compression"] != "off":
            trials.append(trial.model_copy(update={"params": _but_transfer(trial)}))
    return replace(data, trials=trials)


def _but_transfer(trial: Trial) -> dict[str, str]:
    """Its levels but that of the factor ``transfer``, sorted by their factors."""
    return {factor: level for factor, level in sorted(trial.params.items()) if factor != "transfer"}


def at_one_integrity(judge: Judge) -> Judge:
    """The finding at HMAC-SHA-256 where a run has several integrities; at the run's own where it has one."""

    def judge_one(data: Data) -> Judgement:
        several = len({*data.levels("integrity")} - {"none", "aead"}) > 1
        trials = [trial for trial in data.trials if trial.params.get("integrity") in ("none", "aead", USUAL_INTEGRITY)]
        return judge(replace(data, trials=trials) if several else data)

    return judge_one


# What a row of results/published/ asks of the crypto drivers, and what else it does.
Driver = Literal["", "one", "any"]
DRIVERS: Mapping[Driver, Callable[[Judge], Judge]] = {
    "": lambda judge: judge,
    "one": by_one_driver,
    "any": by_any_driver,
}
Condition = Literal["instructions", "says-driver", "files", "compared-files", "one-integrity"]
CONDITIONS: Mapping[Condition, Callable[[Judge], Judge]] = {
    "instructions": with_instructions,
    "says-driver": says_its_driver,
    "files": on_files,
    "compared-files": partial(on_files, compared=True),
    "one-integrity": at_one_integrity,
}


def _planes(data: Data, judgement: Judgement) -> set[str]:
    """The data planes of the systems that decide, and encrypt."""
    encrypting = [name for name in judgement.systems if name not in data.run.vpns or not data.run.vpns[name].reference]
    return {plane_of(data.run, name) for name in encrypting}


def link_bound(data: Data) -> dict[str, str]:
    """The WAN's rate at which plain IP fills the link, as a level; empty where the link is not shaped and real.

    Raises NotMeasured where something else than the link limits plain IP, as one machine's CPU does without shaping."""
    for level in data.levels("wan_rate_bps", BASELINE):
        shaped = {"wan_rate_bps": level}
        with suppress(NotMeasured):
            if _fills(data.blocks("tcp_throughput", BASELINE, **TCP, **shaped), float(level)):
                return shaped
    with suppress(NotMeasured):
        rate_bps = data.run.lab.get("wan_link_bps")
        if isinstance(rate_bps, int | float) and _fills(data.blocks("tcp_throughput", BASELINE, **TCP), rate_bps):
            return {}
    raise NotMeasured(NO_LINK)


def _fills(plain_bps: Blocks, link_bps: float) -> bool:
    return FILLED * link_bps <= median(plain_bps.values()) <= link_bps
