"""Which VPNs a run considers where its user names none: those that have the musts, by what is known before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runner.choice.answer import FULFILLED
from runner.choice.musts import states, words_of
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.shipped_runs import shipped_runs
from runner.data.trials import VpnRecord


def candidates(
    records: Mapping[str, VpnRecord], needs: Needs, *, ports: bool = False, tryable: Collection[Must] = ()
) -> list[str]:
    """The VPNs among ``records`` that have every must in force, by shipped runs and by what they declare, those of
    which trials have shown most first; no references. ``tryable``: musts that the run may show, so that whoever is not
    known to have them comes last. ``ports``: also those that lack nothing but networks, last of all: an answer says
    what would do where forwarding TCP ports is enough."""
    run, trials = shipped_runs()[0]
    known = words_of(states(run.model_copy(update={"vpns": dict(records)}), trials, shipped_runs()[1:]))
    ranks: dict[str, tuple[bool, int, int, str]] = {}
    for vpn, own in known.items():
        unknown = [must for must in needs.must if own[must] == "unknown" and must in tryable]
        lacking = [must for must in needs.must if own[must] not in FULFILLED and must not in unknown]
        if not records[vpn].reference and (not lacking or (ports and lacking == ["networks"])):
            ranks[vpn] = bool(lacking), len(unknown), sum(own[must] == "declared" for must in needs.must), vpn
    return sorted(ranks, key=lambda vpn: ranks[vpn])
