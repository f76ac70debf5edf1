"""The longest packet that look advises for a tunnel travels in one piece and is answered, whatever is lost above it."""

from typing import Any

import pytest

from runner.tunnel import standing


class Ends(standing._Examining):
    """Both gateways of a tunnel on whose path packets over ``fits`` bytes are cut; those in ``silent`` are lost."""

    def __init__(self, fits: int, silent: range) -> None:
        self.fits, self.silent, self.pieces = fits, silent, 0

    def read_counters(self) -> Any:
        return self.pieces

    def ping(self, to: str, *, size: int = 56, **of: Any) -> dict[str, Any]:
        if size + 28 in self.silent:
            return {}
        self.pieces += 3 * (size + 28 > self.fits)
        return {"rtt_ms": [1.0]}


@pytest.mark.parametrize(
    ("fits", "silent", "advised"),
    [
        (1372, range(0), 1372),
        (1340, range(1341, 1440), 1340),  # ICMP is blocked: what is longer than the path is lost
        (1400, range(1420, 1440), 1400),
        (900, range(901, 1440), 900),
        (1440, range(0), 1440),  # nothing is cut
        (1340, range(1440), None),  # only the longest is answered, in pieces
    ],
)
def test_the_longest_packet_is_one_that_was_answered(
    monkeypatch: pytest.MonkeyPatch, fits: int, silent: range, advised: int | None
) -> None:
    monkeypatch.setattr(standing, "fragments_in", lambda before, after: after - before)
    assert Ends(fits, silent).whole("10.2.0.1", "", 1440) == (advised, fits < 1440)
