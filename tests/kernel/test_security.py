"""The security probes on tunnels in the kernel, which many machines' kernels lack: tests/kernel/security_inside.py."""

import pytest

from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.security_inside import EXPECTED

pytestmark = pytest.mark.timeout(WITHIN_S + 60)
INSIDE = "tests/kernel/security_inside.py"


@pytest.fixture(scope="module")
def security_inside(begun: dict[str, Work]) -> Work:
    return begun["security_inside"]


@pytest.mark.parametrize("name", EXPECTED)
def test_probes_of_a_tunnel_in_the_kernel(security_inside: Work, name: str) -> None:
    assert security_inside.outcomes()[f"{INSIDE}::test_probes[{name}]"] == "passed", security_inside.done().stdout
