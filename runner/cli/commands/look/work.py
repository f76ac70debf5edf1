"""``vpneval look``: from the command line to what was found, and from that to sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from questions.choose.judge import choice
from questions.choose.words import headline, suits
from runner.catalogue import load_run, load_vpn, vpn_names
from runner.cli.folders import is_shipped, one_run, runs_in
from runner.data.errors import CannotRunHere, UsageError, VpnevalError, require_known
from runner.data.files import is_folder, short
from runner.lab.places.ends import usual_end
from runner.lab.places.gateways import Gateway
from runner.lab.places.hours import Hours
from runner.lab.places.looked import looked_at
from runner.lab.places.sites import Sites, read_sites, with_addresses
from runner.lab.readings.hardware import cpu_name
from runner.lab.readings.seen import Seen
from runner.report.scale import above
from runner.report.text import count_noun, quantity
from runner.sweep.request import site_limits
from runner.tunnel.bottleneck import PAYLOAD_SHARE, REACHED
from runner.tunnel.standing import Look, Way, examine
from runner.vpn.recognised import Recognised

TOLD = 12  # lines of a tunnel's parameters in the terminal; --json has them all


def look_at_gateways(gateway: str, lab: str, max_rate: str, say: Callable[[str], None], uplink: str = "") -> Look:
    """Look at one gateway, or at the two of an inventory. Raises UsageError and CannotRunHere."""
    if gateway and max_rate:
        raise UsageError("--max-rate needs both gateways, between which a rate is measured: --lab site:SITES.toml")
    if uplink and not lab:
        raise UsageError("--uplink is a line of an inventory: give --lab site:SITES.toml, too")
    limits = site_limits(lab or "site:", max_rate, "")
    machines, inventory = _machines(gateway, lab, uplink)
    most = limits.get("max_rate_bps", inventory.max_rate_bps if inventory else None)
    if most and inventory and Hours(inventory.between or "").opens_in_s():
        say(f"It is not {inventory.between} now: vpneval measures no rate.")
        most = None
    with looked_at(machines, say) as nodes:
        return examine(nodes, outer_of(machines), [load_vpn(name) for name in vpn_names()], most, say)


def outer_of(machines: Mapping[str, Gateway]) -> Callable[[str, Seen], tuple[str, str]]:
    """A gateway's address as the other one reaches it: that of the inventory, or of its port on the path; and its own
    there, if the inventory names its port or address, else empty. Raises CannotRunHere where they are not to be
    found."""

    def outer(name: str, seen: Seen) -> tuple[str, str]:
        machine = machines[name]
        named = machine.wan or machine.wan_address
        try:
            own = usual_end(machine, seen["links"], seen["routes"]) if named or not machine.public_address else ""
            return str(machine.public_address or own), own if named else ""
        except CannotRunHere as lack:
            if len(machines) == 1:
                return "", ""
            raise CannotRunHere(f"{name}: {lack}") from lack

    return outer


def _machines(gateway: str, lab: str, uplink: str) -> tuple[Mapping[str, Gateway], Sites | None]:
    if lab:
        kind, _, path = lab.partition(":")
        if kind != "site" or not path:
            raise UsageError(f"look takes the two gateways of an inventory, not {lab!r:.60}: --lab site:SITES.toml")
        sites = with_addresses(read_sites(Path(path), uplink))
        if gateway:
            require_known("gateway", gateway, [*sites.machines], where=f"in {short(Path(path))}")
        return {name: one for name, one in sites.machines.items() if gateway in ("", name)}, sites
    user, _, address = gateway.rpartition("@")
    if not re.fullmatch(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*", address) or not re.fullmatch(r"[\w.-]*", user):
        raise UsageError(f"{gateway!r:.60} is no gateway that ssh reaches, as gw.example.com or root@10.0.0.1")
    return {"gw1": Gateway(address=address, user=user or None)}, None


def instead(found: Look, folder: Path | None) -> list[str]:
    """What another VPN would change, by the last run between these gateways: sentences. Empty where there is none."""
    if len(found.gateways) < 2:
        return []
    for path in [one_run(folder)] if folder else _of_these(found):
        run, trials = load_run(path)
        needs = run.needs.model_copy(update={"line_bps": run.needs.line_bps or _line_bps(found)})
        made = choice(run.model_copy(update={"needs": needs}), trials)
        if made is None:
            continue
        vpn = next(iter(found.tunnel.values())).vpn if found.tunnel else ""
        own = [sentence for sentence in suits(made, vpn)[1:] if vpn]
        emulated = [above(made.scale)] if made.scale else []
        return [" ".join([f"By the run {short(path)}:", *emulated, headline(made)]), *own]
    return []


def _line_bps(found: Look) -> float | None:
    """The path's rate; None where it was not measured, or no probe was to send faster."""
    slowest = min(found.path.rates_bps, default=0.0)
    most = REACHED * PAYLOAD_SHARE * (found.max_rate_bps or math.inf)
    return slowest if 0 < slowest < most else None


def _of_these(found: Look) -> Iterator[Path]:
    """The runs in results/ that were measured between two sites whose first gateway has this CPU and as many cores, the
    last one first."""
    first = next(iter(found.gateways.values()))
    own = [path for path in runs_in([Path("results")]) if not is_shipped(path)] if is_folder(Path("results")) else []
    for path in sorted(own, key=lambda run: -(run / "run.json").stat().st_mtime):
        try:
            lab = load_run(path)[0].lab
        except VpnevalError:
            continue
        if (lab.get("kind"), lab.get("cpu"), lab.get("cores")) == ("site", cpu_name(first.cpu), first.cores):
            yield path


# --- words ---------------------------------------------------------------------------------------------------


def lines_of_look(found: Look, other: list[str]) -> Iterator[str]:
    """The look in lines, the conclusion first."""
    yield _conclusion(found)
    what = "it" if found.tunnel else "the path"
    if found.limit and found.limit.kind == "none found" and not found.loaded:
        yield f"Nothing was found that limits what {what} carries now."
    elif found.limit:
        yield f"What limits {what} {'while a probe loads it' if found.loaded else 'now'}: {found.limit.sentence}."
    yield from (f"  {line}" for line in _ways(found))
    yield from (f"  {line}" for line in other)
    for name, tunnel in found.tunnel.items():
        if tunnel.told:
            yield f"{name}, in the words of its {tunnel.program or 'kernel'}:"
        yield from (f"  {line}" for line in tunnel.told[:TOLD])
        if len(tunnel.told) > TOLD:
            yield f"  and {count_noun(len(tunnel.told) - TOLD, 'line')} more, in --json"
    yield from _other_tunnels(found)
    yield from _unknown_lines(found, other)


def _other_tunnels(found: Look) -> Iterator[str]:
    """Other tunnels of the gateways, and what these have counted."""
    for name, gateway in found.gateways.items():
        beside = [one for one in gateway.tunnels if one != found.tunnel.get(name)]
        if beside and (found.tunnel or len(gateway.tunnels) > 1):
            yield f"{name} also has: {'; '.join(map(_name_tunnel, beside))}."
    if found.limit and found.limit.evidence:
        yield "What the gateways counted meanwhile:"
        yield from (f"  {line}" for line in found.limit.evidence)


def _unknown_lines(found: Look, other: list[str]) -> Iterator[str]:
    unknown = [f"{name}: {lack}" for name, gateway in found.gateways.items() for lack in gateway.lacks]
    unknown += [f"{name}: {path} cannot be read" for name, one in found.tunnel.items() for path in one.closed]
    if not other and len(found.gateways) > 1:
        unknown.append("what another VPN would change: results/ has no run of these gateways. Measure one: vpneval run")
    if unknown or found.unmeasured:
        yield "Not known:"
        yield from (f"  {line}" for line in (*found.unmeasured, *unknown))


def _name_tunnel(tunnel: Recognised) -> str:
    """A tunnel by its VPN, its program or the kind of its port."""
    where = f" on {tunnel.device}" if tunnel.device else ""
    if tunnel.vpn:
        return f"{tunnel.title}{where}"
    by = f" of the program {tunnel.program}" if tunnel.program else ""
    return f"a tunnel{by}{where} that no plugin recognises ({tunnel.kind or 'IPsec in the kernel'})"


def _conclusion(found: Look) -> str:
    where = " and ".join(found.gateways)
    if not found.tunnel:
        every = [one for gateway in found.gateways.values() for one in gateway.tunnels]
        if len(found.gateways) == 1 and every:
            return f"{where} has {count_noun(len(every), 'tunnel')}."
        return f"No tunnel {'stands on' if len(found.gateways) == 1 else 'was found between'} {where}."
    tunnel = next(iter(found.tunnel.values()))
    mtu = found.inside.mtu_bytes or tunnel.mtu_bytes
    length = f", MTU {mtu}" if mtu else ""
    between = "of" if len(found.gateways) == 1 else "between"
    return f"The tunnel {between} {where} is {_name_tunnel(tunnel)}{length}, {_pieces(found)}."


def _pieces(found: Look) -> str:
    pieces = found.pieces
    if not pieces.travel:
        return "no fragments"
    if pieces.longest and found.inside.whole_bytes:
        return f"and its longest packets travel in fragments: an MTU of {found.inside.whole_bytes} bytes fits"
    counts = f"{pieces.made} made, {pieces.arrived} put together, {pieces.failed} lost in {pieces.seconds:g} s"
    return f"and packets travel in fragments ({counts})"


def _ways(found: Look) -> Iterator[str]:
    for name, way in (("path", found.path), ("tunnel", found.inside)):
        if words := _way(way):
            yield f"{name}: {words}"
    if found.now_bps and not found.loaded:
        sent, received = (quantity(rate, "bit/s") for rate in found.now_bps)
        yield f"now, in the tunnel: {next(iter(found.gateways))} sends {sent} and receives {received}"
    if (
        found.loaded
        and found.max_rate_bps
        and min(found.path.rates_bps, default=0) > REACHED * PAYLOAD_SHARE * found.max_rate_bps
    ):
        yield f"the path may carry more: no probe sent faster than {quantity(found.max_rate_bps, 'bit/s')}"


def _way(way: Way) -> str:
    parts = [f"MTU {way.mtu_bytes}"] if way.mtu_bytes else []
    if way.rtt_ms:
        least, mean, most = (f"{rtt:.2f}" for rtt in way.rtt_ms)
        parts.append(f"round trip {mean} ms ({least}–{most})")
    if way.loss_ratio:
        parts.append(f"{way.loss_ratio:.0%} of the pings lost")
    if way.rates_bps:
        there, back = (quantity(rate, "bit/s") if rate else "TCP comes to a standstill" for rate in way.rates_bps)
        parts.append(f"{there} there and {back} back" if there != back else f"{there} each way")
    return ", ".join(parts)
