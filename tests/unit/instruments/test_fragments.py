"""Which length goes through a tunnel whole, where other traffic is fragmented meanwhile."""

from typing import cast

import pytest

from runner.instruments.tools import fragments
from runner.lab.shape.site_to_site import Lab

LAB = cast(Lab, None)


def test_a_fragment_of_other_traffic_and_a_loss_make_no_length_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    echoes, counts = iter([3, 0, 3]), iter([0, 1, 1, 1, 1])
    monkeypatch.setattr(fragments, "echo", lambda *_: next(echoes))
    monkeypatch.setattr(fragments, "fragments_created", lambda lab: next(counts))
    assert fragments.goes_whole(LAB, "10.2.0.2", 1300)


@pytest.mark.parametrize("whole", [1324, 68])
def test_the_largest_length_that_goes_whole_is_found(monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    made = [0]

    def echo(lab: Lab, address: str, length: int) -> int:
        made[0] += length > whole
        return 3

    monkeypatch.setattr(fragments, "echo", echo)
    monkeypatch.setattr(fragments, "fragments_created", lambda lab: made[0])
    assert fragments.largest_whole(LAB, "10.2.0.2", 1420) == whole
