"""``vpneval doctor``: what this machine can measure, what is missing, and how to get it."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import CannotRunHere, VpnevalError
from runner.lab import kernels
from runner.lab.facts import facts
from runner.lab.names import SUITES
from runner.lab.places import check_spec, open_rig, rootless
from runner.lab.site_to_site import HOST_TOOLS
from runner.report.text import counted
from runner.tunnel.bring_up import unsupported


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``level``: "ok", "warning" (something cannot be measured) or "error"."""

    what: str
    level: str
    says: str


def examine(image_name: str, lab_spec: str = "netns", vpns: str = "") -> list[Check]:
    """Look at this machine, or at another lab's: tools, image, lab, and at both ranked configurations the own probe of
    every VPN, or of those in the list ``vpns``."""
    check_spec(lab_spec)
    plugins = [load_vpn(name) for name in [name for name in vpns.split(",") if name] or vpn_names()]
    checks = []
    for tool, package in HOST_TOOLS.items() if lab_spec == "netns" else ():
        found = shutil.which(tool)
        says = found or f"this command is missing; get it with: apt-get install {package}"
        checks.append(Check(f"command {tool}", "ok" if found else "error", says))
    if os.environ.get(rootless.INSIDE):
        tun = os.access("/dev/net/tun", os.W_OK)
        says = "vpneval runs as root of a user namespace" + (
            "" if tun else "; userspace VPNs need /dev/net/tun, which you may not open: sudo chmod 0666 /dev/net/tun"
        )
        checks.append(Check("without root", "ok" if tun else "warning", says))
    checks += guest_kernels() if lab_spec == "netns" else []
    try:
        rootless.enter(lab_spec)
        with ExitStack() as stack:
            rig = stack.enter_context(open_rig(lab_spec, lambda text: None))
            image = rig.image(image_name)
            checks.append(Check(f"image {image.name}", "ok", f"{image.root} ({len(image.packages)} packages)"))
            lab = stack.enter_context(rig.lab(image, logs=Path(stack.enter_context(TemporaryDirectory()))))
            lab_facts = facts(lab)
            up = f"{len(lab.nodes)} nodes in {lab_facts['bring_up_s']} s on {counted(lab_facts['cores'], 'core')}"
            checks.append(Check(f"lab {lab.kind}", "ok", up))
            checks.append(Check("kernel", "ok", f"{lab_facts['kernel']}, {lab_facts['cpu']}"))
            for vpn in plugins:
                for title, params in (("comparable", vpn.comparable), ("recommended", vpn.recommended)):
                    if title == "recommended" and params == vpn.comparable:
                        continue
                    no = unsupported(lab, vpn, params)
                    says = no.reason if no else f"{vpn.title} works with the cipher {params['cipher']}"
                    checks.append(Check(f"vpn {vpn.name} ({title})", "warning" if no else "ok", says))
    except VpnevalError as error:
        checks.append(Check(f"lab {lab_spec}", "error", str(error)))
    return checks


def guest_kernels() -> list[Check]:
    """Is there what each guest of --kernel needs? None is started. Inside a guest: which one it is."""
    if kernels.inside():
        return [Check("guest kernel", "ok", f"this is {kernels.inside()}: the lines below say what it can run")]
    checks = []
    guests: list[kernels.Uml | kernels.Qemu] = [kernels.Uml(), *map(kernels.Qemu, SUITES)]
    for guest in guests:
        try:
            checks.append(Check(f"guest kernel {guest.name}", "ok", guest.describe()))
        except CannotRunHere as lack:
            checks.append(Check(f"guest kernel {guest.name}", "warning", str(lack)))
    return checks
