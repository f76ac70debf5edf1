"""What was seen of the path between two sites, as needs that the user did not state."""

from __future__ import annotations

from runner.data.needs import MUSTS, Must, Needs, Seen
from runner.lab.shape.site import BarePath

DIGITS = 3  # of what is filled in: the path has no more of them tomorrow


def with_seen(needs: Needs, path: BarePath) -> Needs:
    """The needs with what the bare path shows, where the user has said nothing: the line (the slower way; what one TCP
    connection carried within --max-rate), the median round trip, the loss, the MTU, and the musts that follow from it.
    A loss is filled in where one was seen: of a hundred packets none lost tells nothing of one in a thousand.
    """
    found: dict[Seen, object] = {"path_mtu_bytes": path.mtu_bytes}
    if path.rates_bps:
        found["line_bps"] = float(f"{min(path.rates_bps):.{DIGITS}g}")
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
