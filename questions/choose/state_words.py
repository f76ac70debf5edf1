"""What the machine did beside a choice, and how steady the first VPN was, in sentences."""

from __future__ import annotations

from questions.choose.judgement import Choice
from runner.choice.machine import FEWEST_ROUNDS
from runner.report import text


def no_answer(choice: Choice) -> str:
    """Why the run allows no answer, in a sentence or two; empty where it does."""
    machine = choice.machine
    if machine.forbids == "few":
        return (
            f"No answer yet: each VPN was measured in {text.count_noun(machine.rounds, 'round')}, and an answer needs "
            f"{FEWEST_ROUNDS}. Measure on."
        )
    if machine.forbids is None:
        return ""
    who = "the hypervisor" if machine.stolen > machine.foreign else "other programs"
    named = ", ".join(f"{program.name} {program.cores:.2f} of a core" for program in machine.programs)
    which = f" ({named})" if named and who == "other programs" else ""
    return (
        f"No answer yet: {who} took {machine.taken_share:.0%} of {_owner(choice)} CPU{which}. "
        "What a VPN carries and costs cannot be told on such a machine. Run it again when that has ended."
    )


def disturbance(choice: Choice) -> str:
    """That the machine was disturbed, where that weakens the answer; empty where it was calm or forbids one."""
    machine = choice.machine
    if machine.forbids or not machine.is_disturbed:
        return ""
    who = "the hypervisor" if machine.stolen > machine.foreign else "other programs"
    return f"Nothing is sure here: {who} took {machine.taken_share:.0%} of {_owner(choice)} CPU."


def _owner(choice: Choice) -> str:
    return "the gateways'" if any(device.own_gateways for device in choice.devices.values()) else "this machine's"


def steadiness(choice: Choice) -> str:
    """How often the first VPN did what was asked of it, and what its long watch saw; empty where none is named."""
    said = choice.answer
    if said is None or not said.named:
        return ""
    first = said.candidate_of(said.named[0])
    carried = f"{first.vpn} carried the load in {first.attempts - first.bad_attempts} of {first.attempts} tries"
    if first.watched_s is not None:
        carried += (
            f", and was watched for {first.watched_s:.0f} s at {text.quantity(first.watched_bps or 0, 'bit/s')}: the "
            f"longest gap took {text.digits(first.longest_gap_s or 0)} s, the worst second lost "
            f"{text.percent(first.worst_second_loss_ratio or 0, 1)}"
        )
    return f"{carried}{', but was not watched for long' * is_unwatched(choice)}."


def is_unwatched(choice: Choice) -> bool:
    """Is the first VPN less than sure because nobody has watched it for long?"""
    said = choice.answer
    if said is None or not said.named or said.certainties.steady == "sure":
        return False
    return said.candidate_of(said.named[0]).watched_s is None
