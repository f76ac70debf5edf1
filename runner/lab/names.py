"""What ``--image``, ``--kernel`` and ``--lab`` take. It imports little, so that ``--help`` answers at once."""

from __future__ import annotations

from runner.data.named import HOST, IMAGE

SUITES = {"trixie": "Debian 13", "bookworm": "Debian 12"}
BACKPORTS = "-backports"
NEWER = f"trixie{BACKPORTS}"  # whose kernel is a year or two newer than its suite's
DEFAULT_IMAGE = IMAGE
LAB_FORMS = "netns, vagrant, vagrant:up, ssh:INVENTORY.toml, site:SITES.toml"


def image_names() -> list[str]:
    """What ``--image`` takes: the Debian suites, and ``host`` for this machine's own files."""
    return [*SUITES, HOST]


def kernel_names() -> list[str]:
    """What ``--kernel`` takes; ``qemu`` alone is the default image's."""
    return [HOST, "uml", "qemu", *(f"qemu:{suite}" for suite in (*SUITES, NEWER))]
