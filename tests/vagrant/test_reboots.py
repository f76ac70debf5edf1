"""A recipe's tunnel is there again after both gateways were rebooted; ``make test-vagrant SITES=yes`` tells it."""

from pathlib import Path

import pytest

from tests.vagrant.reboots import NAMES
from tests.vagrant.story import phase, said


@pytest.fixture(autouse=True)
def told(results: Path) -> None:
    """Skips what the story was not asked for."""
    if "\nphase reboots " not in (results / "phases").read_text():
        pytest.skip("the story was told without its reboots: make test-vagrant SITES=yes")


def test_the_reboots_are_told_to_their_end(results: Path) -> None:
    assert phase(results, "reboots") == 0, said(results, "reboots")


@pytest.mark.parametrize("name", NAMES)
def test_a_tunnel_is_there_again_after_a_reboot(results: Path, name: str) -> None:
    assert phase(results, f"reboot-{name}") == 0, (results / f"reboot-{name}.out").read_text()
