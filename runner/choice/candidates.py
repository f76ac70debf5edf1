"""Which VPNs a run considers where its user names none: those that have the musts, by what is known before it."""

from __future__ import annotations

from collections.abc import Mapping

from runner.choice.answer import FULFILLED
from runner.choice.musts import states, words_of
from runner.data.needs import Needs
from runner.data.shipped import shipped_runs
from runner.data.trials import VpnRecord


def candidates(records: Mapping[str, VpnRecord], needs: Needs, *, ports: bool = False) -> list[str]:
    """The VPNs among ``records`` that have every must in force, by shipped runs and by what they declare, those of
    which trials have shown most first; no references. ``ports``: also those that lack nothing but networks, last of
    all: an answer says what would do where forwarding TCP ports is enough."""
    run, trials = shipped_runs()[0]
    known = words_of(states(run.model_copy(update={"vpns": dict(records)}), trials, shipped_runs()[1:]))
    ranks: dict[str, tuple[bool, int, str]] = {}
    for vpn, own in known.items():
        lacking = [must for must in needs.must if own[must] not in FULFILLED]
        if not records[vpn].reference and (not lacking or (ports and lacking == ["networks"])):
            ranks[vpn] = bool(lacking), sum(own[must] == "declared" for must in needs.must), vpn
    return sorted(ranks, key=lambda vpn: ranks[vpn])
