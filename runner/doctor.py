"""``vpneval doctor``: what this machine can measure, what is missing, and how to get it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from runner import image as images
from runner.errors import VpnevalError
from runner.facts import facts
from runner.lab import HOST_TOOLS, check_machine, namespace_lab
from runner.plugin import load_vpn, vpn_names
from runner.tunnel import unsupported


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``level``: "ok", "warning" (something cannot be measured) or "error"."""

    what: str
    level: str
    says: str


def examine(image_name: str) -> list[Check]:
    """Look at this machine: tools, image, lab, and every VPN's own probe at both ranked configurations."""
    checks = []
    for tool, package in HOST_TOOLS.items():
        found = shutil.which(tool)
        says = found or f"missing; get it with: apt-get install {package}"
        checks.append(Check(f"command {tool}", "ok" if found else "error", says))
    try:
        check_machine()
        image = images.open_image(image_name)
        checks.append(Check(f"image {image_name}", "ok", f"{image.root}, {len(image.packages)} packages"))
        with namespace_lab(image) as lab:
            lab_facts = facts(lab)
            checks.append(
                Check("namespace lab", "ok", f"5 nodes in {lab_facts['bring_up_s']} s, {lab_facts['cores']} cores")
            )
            checks.append(Check("kernel", "ok", f"{lab_facts['kernel']}, {lab_facts['cpu']}"))
            for name in vpn_names():
                vpn = load_vpn(name)
                for title, params in (("comparable", vpn.comparable), ("recommended", vpn.recommended)):
                    if title == "recommended" and params == vpn.comparable:
                        continue
                    no = unsupported(lab, vpn, params)
                    says = no.reason if no else f"{vpn.title}: {params['cipher']} works"
                    checks.append(Check(f"vpn {name} ({title})", "warning" if no else "ok", says))
    except VpnevalError as error:
        checks.append(Check("namespace lab", "error", str(error)))
    return checks
