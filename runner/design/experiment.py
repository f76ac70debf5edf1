"""What an experiment is, as data: a question, the factors it varies, and the cells that follow from them.

Tunnel factors get a tunnel each; traffic factors are measured inside it. A file of ``experiments/`` holds one
``EXPERIMENT``; the profile says how long and how often, and which levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runner.data.errors import UsageError
from runner.data.levels import AEAD, BY_PROFILE, LEFT_OUT, TUNNEL, VARIANTS, WAN_FACTORS, Levels
from runner.data.trials import Cell, ExperimentRecord
from runner.design.profile import PROFILES, Profile
from runner.vpn.plugin import Vpn

# A combination's VPN and levels, and the profile -> is it measured? For questions that are no full cross of factors.
Wanted = Callable[[Vpn, Mapping[str, str], Profile], bool]
ALL = ("every level that the factor names",)


def measuring(instrument: str, **levels: str) -> dict[str, str]:
    """What an experiment measures: an instrument, and levels of its factors other than their defaults."""
    return {"measure": instrument, **levels}


@dataclass(frozen=True)
class Experiment:
    """A declared experiment. ``vary`` maps tunnel factors to their levels, on top of the configuration
    ``base`` of each VPN; ``traffic`` lists what is measured inside each tunnel, ``vary_traffic`` crosses it."""

    name: str
    question: str
    method: str
    source: str
    metrics: tuple[str, ...]
    traffic: tuple[Mapping[str, str], ...]
    base: str = "comparable"
    wan: Mapping[str, str] = field(default_factory=dict)  # WAN factors that it fixes
    vary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vary_traffic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # VPNs it is about; empty: all that are asked for
    # Where a user names no VPN and gives a deadline: those that begin; the others come in when their answer is sure.
    first: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # factors whose levels are the question itself: a profile leaves none of them out
    own: bool = False  # each VPN's own levels beside those that are varied
    sensible: Callable[[Mapping[str, str]], bool] | None = None  # which combinations can be measured at all
    optional: Mapping[str, Collection[str]] = field(default_factory=dict)  # of each instrument: see ``with_defaults``
    in_full: tuple[str, ...] = ()  # factors: if levels of one are named, ``wanted`` goes by the longest profile
    # Factor -> of a cell with a chosen level of it: is it measured with it, without it, or both?
    within: Mapping[str, Callable[[Mapping[str, str]], Collection[bool]]] = field(default_factory=dict)
    wanted: Wanted | None = None  # which of these it measures, unless tunnels are named; all, where there is none

    def with_defaults(self, known: Mapping[str, Levels], factors_of: Mapping[str, Mapping[str, Levels]]) -> Experiment:
        """The experiment with its defaults filled in: those of its instruments, ALL of a factor written out, and as
        ``optional`` the factors that are absent unless a user sets them.

        ``known``: all factors; ``factors_of``: those of each instrument. Raises UsageError for an unknown instrument or
        factor.
        """
        for declared in self.traffic:
            if (name := declared["measure"]) not in factors_of:
                raise UsageError(f"experiment {self.name} measures {name!r}; instruments: {', '.join(factors_of)}")
        named = {*self.vary, *self.vary_traffic, *(factor for declared in self.traffic for factor in declared)}
        if unknown := sorted(named - {*known}):
            raise UsageError(f"experiment {self.name} has unknown factors: {', '.join(unknown)}")
        traffic = tuple(
            {factor: levels.default for factor, levels in factors_of[declared["measure"]].items() if levels.default}
            | dict(declared)
            for declared in self.traffic
        )
        varied = {
            factor: known[factor].named if levels == ALL else levels for factor, levels in self.vary_traffic.items()
        }
        optional = {name: [factor for factor in own if not own[factor].default] for name, own in factors_of.items()}
        return replace(self, traffic=traffic, vary_traffic=varied, optional=optional)

    def cells(self, vpn: Vpn, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[Cell]:
        """Every combination of levels for ``vpn``; ``chosen`` levels (--set) override those declared."""
        if self.only and vpn.name.partition("@")[0] not in self.only:
            return []
        tunnels = self._tunnels(vpn, profile, chosen)
        traffics = self._traffics(profile, chosen)
        combined = [_written({**tunnel, **traffic}) for tunnel in tunnels for traffic in traffics]
        named = {factor: chosen[factor] for factor in VARIANTS if factor in chosen and not vpn.reference}
        varied = [dict(zip(named, levels, strict=True)) for levels in itertools.product(*named.values())]
        combined = [params | levels for params in combined for levels in varied]
        for factor, measured in self.within.items():
            combined = [each for params in combined for each in _with_and_without(params, factor, measured)]
        combined = _once(combined)
        wanted = [params for params in combined if not any(skip.items() <= params.items() for skip in profile.skip)]
        if self.sensible:
            wanted = [params for params in wanted if self.sensible(params)]
        if self.wanted:
            # Who names tunnels gets those; who names a level that takes long gets it all the same. A factor that the
            # experiment does not vary is no choice among its tunnels.
            asked = PROFILES["thesis"] if not chosen.keys().isdisjoint(self.in_full) else profile
            named_tunnel = any(factor in chosen for factor in TUNNEL if factor in self.vary)
            wanted = [
                params
                for params in wanted
                if (named_tunnel and not any(factor in params and factor not in chosen for factor in VARIANTS))
                or self.wanted(vpn, params, asked)
            ]
        return [Cell(vpn=vpn.name, params=params) for params in wanted]

    def record(self, vpns: Sequence[Vpn], profile: Profile, chosen: Mapping[str, Sequence[str]]) -> ExperimentRecord:
        """The experiment as run.json holds it: the levels asked for, and the cells of all ``vpns`` in their order."""
        cells = [cell for vpn in vpns for cell in self.cells(vpn, profile, chosen)]
        factors = {**self.vary, **self.vary_traffic}
        return ExperimentRecord(
            name=self.name,
            question=self.question,
            method=self.method,
            source=self.source,
            factors={name: list(self._levels(name, levels, profile, chosen)) for name, levels in factors.items()},
            metrics=list(self.metrics),
            cells=cells,
        )

    def _levels(
        self, factor: str, declared: Sequence[str], profile: Profile, chosen: Mapping[str, Sequence[str]]
    ) -> Sequence[str]:
        if factor in chosen:
            return chosen[factor]
        allowed = None if factor in self.keep else profile.levels.get(factor)
        return [level for level in declared if allowed is None or level in allowed]

    def _tunnels(self, vpn: Vpn, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        base = dict(vpn.recommended if self.base == "recommended" else vpn.comparable)
        varied = {name: self._levels(name, levels, profile, chosen) for name, levels in self.vary.items()}
        varied |= {name: levels for name, levels in chosen.items() if name in TUNNEL or name in WAN_FACTORS}
        if "wan" in chosen:  # another WAN altogether
            varied = {name: levels for name, levels in varied.items() if name in chosen or name not in WAN_FACTORS}
        else:
            base |= self.wan
        if vpn.reference:  # it has no cipher to vary, but its WAN is everybody's: it is there to be compared with
            wans = {name: levels for name, levels in varied.items() if name in WAN_FACTORS}
            return [base | dict(zip(wans, levels, strict=True)) for levels in itertools.product(*wans.values())]
        tunnels = [base] if self.own and not any(factor in chosen for factor in TUNNEL) else []
        for levels in itertools.product(*varied.values()):
            tunnel = base | dict(zip(varied, levels, strict=True))
            if "integrity" not in varied or tunnel["cipher"] in AEAD:
                tunnel["integrity"] = matching_integrity(vpn, tunnel["cipher"])
            if tunnel not in tunnels:
                tunnels.append(tunnel)
        return tunnels

    def _traffics(self, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        varied = {name: self._levels(name, levels, profile, chosen) for name, levels in self.vary_traffic.items()}
        combinations: list[dict[str, str]] = []
        for declared in self.traffic:
            decided = {"payload_bytes": str(profile.udp_payload_bytes), "fragmentation": profile.fragmentation}
            traffic = {factor: decided[factor] if level == BY_PROFILE else level for factor, level in declared.items()}
            mine = {factor: levels for factor, levels in varied.items() if factor in traffic}
            known = {*traffic, *self.optional.get(traffic["measure"], ())}
            mine |= {factor: levels for factor, levels in chosen.items() if factor in known}
            for levels in itertools.product(*mine.values()):
                combined = dict(traffic) | dict(zip(mine, levels, strict=True))
                if combined["measure"] != traffic["measure"]:
                    continue  # --set measure=udp drops the TCP traffic; it does not turn it into UDP
                if combined not in combinations:
                    combinations.append(combined)
        return combinations


def _with_and_without(
    params: dict[str, str], factor: str, measured: Callable[[Mapping[str, str]], Collection[bool]]
) -> list[dict[str, str]]:
    """The combination with the level of ``factor`` that it has, without it, or both."""
    if factor not in params:
        return [params]
    without = {name: level for name, level in params.items() if name != factor}
    return [params if with_it else without for with_it in measured(params)]


def _written(params: Mapping[str, str]) -> dict[str, str]:
    """The combination without the levels that nobody has to ask for."""
    return {factor: level for factor, level in params.items() if LEFT_OUT.get(factor) != level}


def _once(params: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Each combination once, in its order."""
    return list({tuple(combination.items()): combination for combination in params}.values())


def matching_integrity(vpn: Vpn, cipher: str) -> str:
    """The integrity level of a cipher: its own tag for an AEAD, else the VPN's comparable HMAC."""
    if cipher in AEAD:
        return "aead"
    declared = vpn.comparable["integrity"]
    return "hmac-sha256" if declared == "aead" else declared
