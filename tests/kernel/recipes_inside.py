"""The recipes of VPNs in the kernel, by hand, in a guest that has them: run there by tests/kernel/test_recipes.py.

usage: python -m tests.kernel.recipes_inside [--kernel qemu] FOLDER [VPN…]   (report.xml goes to FOLDER)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from runner.lab import kernels
from runner.lab.software.image import Image, open_image
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import LEAN
from tests.lab.by_hand import two_gateways
from tests.lab.test_recipe_by_hand import FORMS, goes_by_hand

NAMES = ("ipsec", "gre_ipsec")
DEBIANS = ("wireguard",)  # User Mode Linux has none


@pytest.fixture(scope="module")
def image() -> Image:
    return open_image()


@pytest.mark.parametrize("name", [*NAMES, *DEBIANS])
@pytest.mark.parametrize("form", FORMS)
def test_a_recipe_by_hand(image: Image, tmp_path: Path, name: str, form: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        for gateway in ("gw1", "gw2"):  # a guest takes 13 s to load all of strongSwan's plugins
            lab.nodes[gateway].write("/etc/strongswan.d/zz-lean.conf", LEAN)
        goes_by_hand(lab, name, form, tmp_path)


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--kernel", default="uml")
    asked.add_argument("folder", type=Path)
    asked.add_argument("names", nargs="*")
    wanted = asked.parse_args()
    (kernel,) = kernels.parse(wanted.kernel, several=False)
    names = wanted.names or (NAMES if wanted.kernel == "uml" else DEBIANS)
    tests = [f"{__file__}::test_a_recipe_by_hand[{form}-{name}]" for name in names for form in FORMS]
    return in_guest(wanted.folder, ["-q", "-rA", "--timeout=900", *tests], kernel=kernel)


if __name__ == "__main__":
    sys.exit(main())
