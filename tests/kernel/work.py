"""What guests do for the tests: each a module and its arguments, under the name of the fixture that looks at it."""

from __future__ import annotations

from pathlib import Path

SMALLEST = ("--profile", "smallest", "--kernel", "uml")
KERNEL_VPNS = {"ipsec": "kernel: ESP"}  # the others: test_vpns.py
OLD_CIPHERS = ("3des-cbc", "blowfish-128-cbc", "aes-192-cbc", "null")
# The abilities of tests/kernel/abilities_inside.py, for two guests.
CARRIED = ("carried", "ipv6_inside", "ipv6_outside")
WAY = ("nat", "tcp_443", "roaming", "no_roaming", "applications", "mesh")
FAILS = """
from vpns.none import PlainIp
class Fails(PlainIp):
    reference = False
    def start(self, node, me, peers, params):
        node.run("false")
"""


def work(folder: Path) -> dict[str, list[str]]:
    """Fixture -> module and arguments. Each has the folder of its name in ``folder`` to itself."""
    (folder / "fails.py").write_text(FAILS)
    vpns = ",".join([*KERNEL_VPNS, str(folder / "fails.py")])
    levels = ",".join([*(f"cipher={cipher}" for cipher in OLD_CIPHERS), "compression=on"])
    run, rest = ["runner", "run"], ["--profile", "smallest", "--rest", "uml"]
    return {
        "ha_inside": ["tests.kernel.ha_inside", f"{folder}/ha_inside"],
        "security_inside": ["tests.kernel.security_inside", f"{folder}/security_inside"],
        "measured": [*run, "reference", *SMALLEST, "--vpn", vpns, "--json", "--out", f"{folder}/measured"],
        "ciphers": [*run, "cipher", *SMALLEST, "--vpn", "ipsec", "--set", levels, "--out", f"{folder}/ciphers"],
        "doctor": ["runner", "doctor", "--kernel", "uml", "--json"],
        "both": [*run, "reference", *rest, "--vpn", "ipip", "--out", f"{folder}/both"],
        "vpns": ["tests.kernel.vpns_inside", f"{folder}/vpns"],
        "ciphers_inside": ["tests.kernel.levels_inside", f"{folder}/ciphers_inside"],
        "carried_inside": ["tests.kernel.abilities_inside", f"{folder}/carried_inside", *CARRIED],
        "way_inside": ["tests.kernel.abilities_inside", f"{folder}/way_inside", *WAY],
        "recipes_inside": ["tests.kernel.recipes_inside", f"{folder}/recipes_inside"],
        "lab_inside": ["tests.kernel.lab_inside", f"{folder}/lab_inside"],
    }
