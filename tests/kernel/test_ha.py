"""Two gateways with ESP and CLUSTERIP in the kernel, one of which fails; inside a guest: tests/kernel/ha_inside.py."""

import pytest

from tests.kernel.inside import WITHIN_S, Work

INSIDE = "tests/kernel/ha_inside.py"
TESTS = (
    "test_the_plugin_ha_hands_the_kernels_sas_over",
    "test_clusterip_moves_the_site_when_the_heartbeats_end",
    "test_the_threads_of_a_gateways_ports_are_charged_with_its_esp",
)

pytestmark = pytest.mark.timeout(WITHIN_S + 60)


@pytest.fixture(scope="module")
def ha_inside(begun: dict[str, Work]) -> Work:
    return begun["ha_inside"]


@pytest.mark.parametrize("test", TESTS)
def test_passes_under_a_kernel_that_has_everything(ha_inside: Work, test: str) -> None:
    assert ha_inside.outcomes()[f"{INSIDE}::{test}"] == "passed", ha_inside.done().stdout
