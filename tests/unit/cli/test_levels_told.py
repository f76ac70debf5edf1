"""How a line about a trial tells its levels: each instrument says its own."""

from __future__ import annotations

import pytest

from runner.cli.live import levels_of
from runner.data.levels import Levels


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ({"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"}, "tcp"),
        (
            {"measure": "tcp", "direction": "reverse", "streams": "4", "payload": "zeros"},
            "tcp · reverse · 4 streams · zeros",
        ),
        ({"measure": "udp", "payload_bytes": "1300", "dscp": "46", "flows": "16"}, "udp · dscp 46 · flows 16"),
        ({"measure": "download", "file_bytes": "20000000"}, "download · 20 MB"),
        ({"measure": "packets", "fragmentation": "allow", "packet_bytes": "64"}, "packets · 64 B"),
        ({"measure": "loaded", "load": "full"}, "loaded"),
        ({"measure": "recovery", "failure": "reboot"}, "recovery · reboot"),
        ({"measure": "somebody's", "at_once": "8"}, "somebody's · at_once 8"),
    ],
)
def test_a_line_tells_what_is_unusual_in_the_words_of_the_instrument(levels: dict[str, str], told: str) -> None:
    assert levels_of({"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"} | levels) == (
        f"aes-128-cbc · {told}"
    )


def test_how_a_level_is_told_makes_no_other_levels() -> None:
    """Two instruments may have the same factor if it has the same levels, whatever they call them."""
    assert Levels(("1", "8"), told="{} at once".format, usual="1") == Levels(("1", "8"))
