"""Which cells can be measured here: every VPN is asked live, on a gateway, before the first block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from runner.catalogue import describe_fault, instruments
from runner.data.errors import InstrumentError, PluginError, Unsupported, UsageError, VpnevalError
from runner.data.foreign import caught
from runner.data.levels import BASELINE, tunnel_levels
from runner.data.remarks import Remark
from runner.data.store import Store
from runner.data.trials import Cell, Status
from runner.data.wan import Conditions, conditions
from runner.instruments.instrument import Instrument
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import Lab
from runner.sweep import cpu_quota, crypto_driver
from runner.sweep.settings import Stage
from runner.tunnel import inner
from runner.tunnel.bring_up import vpn_refusal
from runner.tunnel.path import no_underlay
from runner.vpn.plugin import Vpn


def refusals(
    cells: Sequence[Cell], vpns: Mapping[str, Vpn], stage: Stage, store: Store
) -> Iterator[tuple[Cell, Status, str, list[Remark]]]:
    """The cells that cannot be measured here, each with its reason and remarks: ``unsupported``, ``failed`` where the
    plugin is broken, ``lab_error`` where the lab's software is. One lab for each image of the gateways, and for each
    version, which takes the place of the image's own."""
    places: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.params.get("image", ""), vpns[cell.vpn].software.version), []).append(cell)
    for (name, _), mine in places.items():
        image = stage.images[name]
        with stage.rig.lab(stage.image, image, logs=store.logs("probe")) as lab:
            asking = _Asking(lab, stage)
            for cell in mine:
                try:
                    no = asking.refusal_of(vpns[cell.vpn], cell)
                except PluginError as broken:
                    yield cell, "failed", str(broken), []
                except InstrumentError as own:
                    yield cell, "lab_error", str(own), []
                else:
                    if no:
                        remarks = [Remark(kind=no.cause, subject=no.offered, why=no.why)] if no.cause else []
                        yield cell, "unsupported", no.reason, remarks


def sentences_on(refused: Sequence[tuple[Cell, str]], cells: Sequence[Cell]) -> list[str]:
    """What the user is told of cells that cannot be measured here: in one sentence the VPNs without any cell; for each
    reason that others have how many cells it is, whose, at which levels where it is these that cannot be had, and the
    reason, which names the remedy where there is one."""
    keys, by_reason = {cell.key for cell, _ in refused}, dict[str, list[Cell]]()
    never = {cell.vpn for cell, _ in refused} - {cell.vpn for cell in cells if cell.key not in keys}
    for cell, reason in refused:
        if cell.vpn not in never:
            by_reason.setdefault(" ".join(reason.split()), []).append(cell)
    names = ", ".join(dict.fromkeys(cell.vpn for cell, _ in refused if cell.vpn in never))
    return [f"This machine cannot run: {names}. Why: vpneval doctor"] * bool(never) + [
        f"{len(lost)} of {len(cells)} cells cannot be measured here: {', '.join(dict.fromkeys(c.vpn for c in lost))}"
        f"{_only_with(lost, cells)}: {reason.rstrip('.')}."
        for reason, lost in by_reason.items()
    ]


def _only_with(lost: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """The levels that these cells have and the others of the same VPNs have not, as words; or ""."""
    vpns, keys = {cell.vpn for cell in lost}, {cell.key for cell in lost}
    others = [cell for cell in cells if cell.vpn in vpns and cell.key not in keys]
    factors = dict.fromkeys(factor for cell in lost for factor in cell.params)
    found = list[str]()
    for factor in factors if others else ():
        levels, rest = ({cell.params.get(factor) for cell in group} for group in (lost, others))
        if not levels & rest:
            found += [f"{factor}={level}" for level in sorted(filter(None, levels))]
    return f" with {', '.join(found)}" if found else ""


def lost_levels(chosen: Mapping[str, Sequence[str]], cells: Sequence[Cell], refused: Set[str]) -> list[str]:
    """The levels that were asked for (``factor=level``), of which all cells are ``refused`` (keys)."""
    found = list[str]()
    for factor, levels in chosen.items():
        for level in levels:
            own = [cell.key for cell in cells if cell.params.get(factor) == level and cell.vpn != BASELINE]
            found += [f"{factor}={level}"] if own and refused >= {*own} else []
    return found


class _Asking:
    """Asks VPNs what they support, in one lab; each question once, however many cells share it."""

    def __init__(self, lab: Lab, stage: Stage) -> None:
        self.lab, self.rate_bps = lab, stage.profile.wan_rate_bps
        self.tunnels: dict[tuple[object, ...], Unsupported | PluginError | InstrumentError | None] = {}
        self.wans: dict[Conditions, Unsupported | None] = {}

    def refusal_of(self, vpn: Vpn, cell: Cell) -> Unsupported | None:
        levels = tunnel_levels(cell.params)
        instrument = instruments()[cell.params["measure"]]
        if not instrument.needs_tunnel:
            return Vpn.supports(vpn, self.lab.gateway(self.lab.sites[0]), levels)
        key = (cell.vpn, *levels.items())
        if key not in self.tunnels:
            try:
                self.tunnels[key] = vpn_refusal(self.lab, vpn, levels)
            except (PluginError, InstrumentError) as broken:
                self.tunnels[key] = broken
        if isinstance(no := self.tunnels[key], PluginError | InstrumentError):
            raise no
        on_wan = conditions(cell.params, self.rate_bps)
        if on_wan not in self.wans:
            self.wans[on_wan] = wan.conditions_refusal(self.lab, on_wan)
        no = no or no_underlay(self.lab, vpn, cell.params) or self._no_inner(instrument, vpn, cell)
        no = no or self.wans[on_wan]
        return no or self._refuses(instrument, vpn, cell) or level_refusal(self.lab, vpn, cell.params)

    def _no_inner(self, instrument: Instrument, vpn: Vpn, cell: Cell) -> Unsupported | None:
        """Why IPv6 cannot be between the sites, or cannot be measured there; None where it can, or is not asked for."""
        if cell.params.get("inner") == "6" and not instrument.inner_ipv6:
            return Unsupported(f"the instrument {instrument.name} sends IPv4 only: --set inner=both has IPv6 beside it")
        return inner.ipv6_refusal(self.lab, vpn) if "inner" in cell.params else None

    def _refuses(self, instrument: Instrument, vpn: Vpn, cell: Cell) -> Unsupported | None:
        def blame(broken: BaseException) -> None:
            raise UsageError(describe_fault(instrument, broken)) from broken

        with caught(blame, VpnevalError):
            no = instrument.refuses(self.lab, vpn, cell.params)
        return no


def level_refusal(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why the levels beside cipher, integrity and compression cannot be had in this lab, or of this VPN."""
    return cpu_quota.quota_refusal(lab, vpn, params) or crypto_driver.driver_refusal(lab, vpn, params)
