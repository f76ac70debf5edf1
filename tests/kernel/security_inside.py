"""The security probes on tunnels in a guest's kernel: ESP passes, plain GRE fails; run by test_security.py.

usage: python -m tests.kernel.security_inside FOLDER [pytest's options]   (report.xml goes to FOLDER)
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.instruments.security.run import security
from runner.lab.software.image import Image, open_image
from tests.kernel.inside import in_guest
from tests.lab.test_security import Benches, bench_of

__all__ = ["bench_of"]
# Those that a tunnel in the kernel decides by itself; its plaintext is looked for in every trial's proof.
PROBED = {
    "ipsec": ("peer_authentication", "diversion_resistance", "anti_replay", "data_integrity"),
    "gre": ("anti_replay", "data_integrity"),
}
EXPECTED = {"ipsec": 1.0, "gre": 0.0}


@pytest.fixture(scope="module")
def image() -> Image:
    return open_image()


@pytest.mark.parametrize("name", EXPECTED)
def test_probes(bench_of: Benches, name: str, tmp_path: Path) -> None:
    vpn = load_vpn(name)
    found = security(bench_of(vpn), vpn, vpn.recommended, only=PROBED[name])
    values = {one.metric: one.value for one in found.measurements}
    assert values == dict.fromkeys(PROBED[name], EXPECTED[name]), (
        found.attempt,
        [one.detail for one in found.measurements],
    )
    assert all((tmp_path / file).exists() for one in found.measurements for file in one.detail["evidence"])


def main() -> int:
    options = ["-q", "-rA", "--timeout=300", *sys.argv[2:], __file__]
    return in_guest(Path(sys.argv[1]), options)


if __name__ == "__main__":
    sys.exit(main())
