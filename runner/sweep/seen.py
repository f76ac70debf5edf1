"""What was seen of the path between two sites, as needs that the user did not state; and the request for this path."""

from __future__ import annotations

from dataclasses import replace

from runner.data.lab_facts import slow_tcp_bps
from runner.data.named import MUSTS, Must
from runner.data.needs import Needs, Seen
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.lab.shape.site import BarePath
from runner.sweep.request import Request

APART = 0.1  # of the faster way: less is one rate for both
SLOW_TCP = ({"measure": "ladder", "carried": "tcp"}, {"measure": "tcp", "direction": "reverse"})
DIGITS = 3  # of what is filled in: the path has no more of them tomorrow
HEADROOM = 1.5  # a load of twice what is carried loses half, and tells too little


def for_path(request: Request, path: BarePath, most_bps: float | None = None) -> Request:
    """The request with what this path shows of the needs; where its profile goes by the path, with the rates of the
    searches, and of the ladder, as high as the path carries. ``most_bps``: the site's limit."""
    needs = with_seen(request.needs, path)
    if not request.profile.from_path:
        return replace(request, seen=needs)
    line = dict[str, list[str]]()
    if needs.up_bps and any(cell.params["measure"] == "ladder" for cell in request.cells):
        line = {"line_bps": [f"{needs.up_bps:.0f}"]}
    profile = from_path(request.profile, path, most_bps)
    carry_datagrams = all(vpn.carries != "tcp" for vpn in (*request.vpns, *request.later))
    if carry_datagrams and slow_tcp_bps(path.tcp_bps, path.rates_bps):
        request = replace(request, experiments=[_without_slow_tcp(each) for each in request.experiments])
    return replace(request, profile=profile, chosen=line | request.chosen, seen=needs)


def _without_slow_tcp(experiment: Experiment) -> Experiment:
    """The experiment without what TCP would take long for and tell nothing of: the ladder, and the way back."""
    left = tuple(one for one in experiment.traffic if not any(one.items() >= slow.items() for slow in SLOW_TCP))
    return replace(experiment, traffic=left)


def from_path(profile: Profile, path: BarePath, most_bps: float | None = None) -> Profile:
    """The profile with searches limited by what the bare path carries, with headroom: where no UDP port was open, one
    TCP connection measured it, which may carry less than the path has room for. Where no rate was measured,
    ``most_bps`` is the limit."""
    highest_bps = HEADROOM * max(path.rates_bps) if path.rates_bps else most_bps
    if not highest_bps:
        return profile
    limited = {name: replace(search, max_rate_bps=highest_bps) for name, search in profile.searches.items()}
    return replace(profile, **limited)  # type: ignore[arg-type]


def without_rate(request: Request, path: BarePath, most_bps: float | None = None) -> str:
    """What the user is told where the searches go by the path, and nothing limits them; else empty."""
    if not request.profile.from_path or path.rates_bps or most_bps:
        return ""
    return (
        "The rate of the bare path was not measured, because no port of gw2 comes through. So the searches "
        "offer up to 10 Gbit/s. To limit them, give --max-rate."
    )


def with_seen(needs: Needs, path: BarePath) -> Needs:
    """The needs with what the bare path shows, where the user has said nothing: the line (each way, or the slower one
    where they differ little; what was carried within --max-rate), the median round trip, the loss, the MTU, and the
    musts that follow from it. A loss is filled in where one was seen: of a hundred packets none lost tells nothing of
    one in a thousand."""
    found: dict[Seen, object] = {"path_mtu_bytes": path.mtu_bytes}
    if path.rates_bps:
        up_bps, down_bps = (float(f"{rate:.{DIGITS}g}") for rate in (path.rates_bps[0], path.rates_bps[-1]))
        alike = abs(up_bps - down_bps) <= APART * max(up_bps, down_bps)
        found["line_bps"] = min(up_bps, down_bps) if alike else down_bps
        found |= {} if alike or needs.line_bps is not None else {"line_up_bps": up_bps}
    if path.rtt_ms:
        found["path_rtt_ms"] = float(f"{path.rtt_ms[1]:.{DIGITS}g}")
    if path.loss_ratio:
        found["path_loss_ratio"] = path.loss_ratio
    found = {name: value for name, value in found.items() if getattr(needs, name) is None}
    musts = [must for must in _musts(path) if must not in (*needs.must, *needs.without)]
    return Needs.model_validate(
        {
            **dict(needs),
            **found,
            "must": tuple(must for must in MUSTS if must in (*needs.must, *musts)),
            "seen": (*needs.seen, *found, *musts),
        }
    )


def _musts(path: BarePath) -> list[Must]:
    """What a VPN has to cope with on this path."""
    musts: list[Must] = ["nat"] if path.nat else []
    datagrams = [port for port in path.open if port.startswith("udp/")]
    return [*musts, *(["udp-blocked"] if path.tried and not datagrams else [])]  # type: ignore[list-item]
