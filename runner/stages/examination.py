"""``vpneval doctor``: what this machine can measure, what is missing, and how to get it."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import CannotRunHere, LabError, VpnevalError
from runner.data.streams import output_to
from runner.lab import kernels, machine
from runner.lab.kernels.boot import run_in
from runner.lab.names import SUITES
from runner.lab.places import check_spec, check_uplinks, open_rig, rootless
from runner.lab.places.hours import Hours
from runner.lab.places.modules import lacking
from runner.lab.places.site import ETHERNET_MTU, SiteRig
from runner.lab.readings.facts import facts
from runner.lab.shape.site import ENCAPSULATION_BYTES, BarePath, Site
from runner.lab.shape.site_to_site import HOST_TOOLS, Lab
from runner.sweep.request import site_limits
from runner.tunnel.bring_up import vpn_refusal
from runner.tunnel.path import path_refusal
from runner.vpn.plugin import Vpn

FULL = 0.75  # share of the rate that a test may send at: a path that carries it may carry more


@dataclass(frozen=True)
class Check:
    """The result of one check. ``level``: "ok", "warning" (something cannot be measured) or "error". ``vpn``: whose it
    is, in which ranked ``configuration``; empty where it is no VPN's. ``tool``: the command that it looks
    for."""

    what: str
    level: str
    says: str
    vpn: str = ""
    configuration: str = ""
    tool: str = ""


def examine(
    image_name: str,
    lab_spec: str = "netns",
    vpns: str = "",
    max_rate: str = "",
    say: Callable[[str], None] = lambda text: None,
    uplink: str = "",
) -> list[Check]:
    """Check this machine, or another lab's: tools, image, lab, and every VPN (or those in ``vpns``) by its own probe at
    both ranked configurations. In a site lab check the path, too, no faster than ``max_rate``: that of its ``uplink``,
    if one is named. ``say``: it is told of what takes long."""
    check_spec(lab_spec)
    check_uplinks(lab_spec, [uplink] * bool(uplink))
    limits = site_limits(lab_spec, max_rate, "")
    plugins = [load_vpn(name) for name in [name for name in vpns.split(",") if name] or vpn_names()]
    checks = this_machine() + guest_kernels() if lab_spec == "netns" else []
    try:
        rootless.enter(lab_spec)
        with ExitStack() as stack:
            rig = stack.enter_context(open_rig(lab_spec, lambda text: None, limits, uplink))
            if isinstance(rig, SiteRig):
                checks += hours_check(rig.hours) + [Check("beside it", "warning", note) for note in rig.notes]
            image = rig.image(image_name, say if isinstance(rig, SiteRig) else None)
            checks.append(Check(f"image {image.name}", "ok", f"{image.root} ({len(image.packages)} packages)"))
            lab = stack.enter_context(rig.lab(image, logs=Path(stack.enter_context(TemporaryDirectory()))))
            lab_facts = facts(lab)
            cores = f"{lab_facts['cores']} core{'s' * (lab_facts['cores'] != 1)}"
            up = f"{len(lab.nodes)} nodes in {lab_facts['bring_up_s']} s on {cores}"
            checks.append(Check(f"lab {lab.kind}", "ok", up))
            checks.append(Check("kernel", "ok", f"{lab_facts['kernel']}, {lab_facts['cpu']}"))
            checks += path_checks(lab.measure_path(), lab.sites) if lab.measure_path else []
            of_vpns = vpn_checks(lab, plugins)
            checks += (module_checks(rig, lab, plugins, of_vpns) if isinstance(rig, SiteRig) else []) + of_vpns
    except VpnevalError as error:
        checks.append(Check(f"lab {lab_spec}", "error", str(error)))
    return checks


def hours_check(hours: Hours) -> list[Check]:
    """A warning where tests may not run at this hour; the doctor does not wait."""
    if hours.opens_in_s() == 0:
        return []
    now = f"{hours.now():%H:%M} {hours.zone}"
    says = f"it is not {hours.between} now ({now}). The doctor does not wait"
    return [Check("hours", "warning", f"{says}: it fills the path each way for some seconds")]


def vpn_checks(lab: Lab, plugins: Sequence[Vpn]) -> list[Check]:
    """The results of each VPN's own probe, at both ranked configurations."""
    checks = []
    for vpn in plugins:
        for title, params in (("comparable", vpn.comparable), ("recommended", vpn.recommended)):
            if title == "recommended" and params == vpn.comparable:
                continue
            no = vpn_refusal(lab, vpn, params)
            says = no.reason if no else f"{vpn.title} works with the cipher {params['cipher']}"
            checks.append(Check(f"vpn {vpn.name} ({title})", "warning" if no else "ok", says, vpn.name, title))
    return checks


def module_checks(rig: SiteRig, lab: Lab, plugins: Sequence[Vpn], of_vpns: Sequence[Check]) -> list[Check]:
    """Which kernel modules each machine lacks for the VPNs that the path allows and that cannot run there. What a VPN
    that runs there uses is there, whatever the kernel tells of its modules."""
    refusals = {check.vpn for check in of_vpns if check.level != "ok"}
    used = {module for vpn in plugins if vpn.name not in refusals for module in vpn.modules.split()}
    vpns = [vpn for vpn in plugins if vpn.name in refusals and not path_refusal(lab, vpn)]
    modules = sorted({module for vpn in vpns for module in vpn.modules.split()} - used)
    says = {name: lacking(connection, modules) for name, connection in rig.gateways.items()}
    return [Check(f"modules {name}", "warning", text) for name, text in says.items() if text]


def path_checks(path: BarePath, sites: Sequence[Site]) -> list[Check]:
    """Checks of the path between two machines, a line each."""
    near, far = sites[0].name, sites[-1].name
    ways = f"from {near} to {far}", f"from {far} to {near}"
    less = ENCAPSULATION_BYTES[sites[0].path_version]
    shorter = f"; the test hosts' packets are {less} bytes shorter"
    short = shorter if path.mtu_bytes < ETHERNET_MTU else ""
    lines = [
        ("MTU", True, f"{path.mtu_bytes} bytes{'' if path.answers_pings else ' (no ping is answered)'}{short}"),
        ("NAT", True, path.nat or "none was seen"),
        ("routing", True, "both gateways are on one network" if path.on_link else "a router or a NAT is in between"),
    ]
    if path.rtt_ms and path.loss_ratio is not None and path.clock_ahead_s is not None:
        low, median, high = path.rtt_ms
        lines.append(("RTT", True, f"{low:.2f} ms at least, median {median:.2f} ms, 95 % within {high:.2f} ms"))
        lines.append(("loss", not path.loss_ratio, f"{path.loss_ratio:.1%} of the exchanges"))
        for marks, kept in (("DSCP", path.dscp_kept), ("ECN", path.ecn_kept)):
            lost = [way for way, survives in zip(ways, kept, strict=True) if not survives]
            says = f"the marks are removed {' and '.join(lost)}" if lost else "the marks survive"
            lines.append((marks, not lost, says))
        lines.append(("clocks", True, f"they differ by {abs(1e3 * path.clock_ahead_s):.1f} ms"))
    else:
        lines.append(("RTT", False, _not_measured(path, "udp", far, "nor are loss, DSCP, ECN and the clocks")))
    for way, rate_bps in zip(ways, path.rates_bps, strict=False):
        found = f"{rate_bps / 1e6:.4g} Mbit/s {way}, without a VPN"
        if not any(port.startswith("udp") for port in path.open):
            found = f"at least {found}: one TCP connection carries so much, and no UDP port of {far} comes through"
        elif path.most_bps and rate_bps > FULL * path.most_bps:
            found = f"at least {found}: no test may send faster than {path.most_bps / 1e6:.4g} Mbit/s (--max-rate)"
        lines.append(("rate", True, found))
    if not path.rates_bps:
        consequence = "so --profile site searches up to --max-rate, if you give it, and up to 10 Gbit/s if not"
        lines.append(("rate", False, _not_measured(path, "tcp", far, consequence)))
    if shut := [port for port in path.tried if port not in path.open]:
        lines.append(("ports", False, f"these do not come through to {far}: {', '.join(shut)}"))
    return [Check(f"path {what}", "ok" if well else "warning", says) for what, well, says in lines]


def _not_measured(path: BarePath, kind: str, far: str, so: str) -> str:
    """Why something of the path was not measured, and what to do."""
    tried = [port for port in path.tried if port.startswith(kind)]
    what = f"let one of these in: {', '.join(tried)}" if tried else f"forward one and list it in forwards of [{far}]"
    return f"not measured, {so}: no {kind.upper()} port of {far} comes through. To measure it, {what}"


def this_machine() -> list[Check]:
    """Check what this machine has, and what it, or the container, allows this process to do. No lab is started."""
    checks = []
    for tool, package in HOST_TOOLS.items():
        path = shutil.which(tool)
        says = path or f"this command is missing; get it with: apt-get install {package}"
        checks.append(Check(f"command {tool}", "ok" if path else "error", says, tool=tool))
    if os.environ.get(rootless.INSIDE):
        checks.append(Check("without root", "ok", "vpneval runs as root of a user namespace"))
    root = os.geteuid() == 0
    granted = "all that a lab needs" if root else "this user is not root: a lab needs user namespaces (docs/labs.md)"
    files = f"{machine.descriptors()} may be open"
    asked = [
        ("capabilities", "error", machine.no_capability(machine.CAPABILITIES) if root else "", granted),
        ("open files", "error", machine.no_limits() or machine.few_descriptors(), files),
        ("TUN", "warning", machine.no_tun(), "/dev/net/tun is the kernel's TUN device"),
        ("cores", "warning", machine.fewer_cores(), "all of this machine"),
        ("modules", "warning", machine.modules_gone(), "they belong to the running kernel, or it has none"),
        ("IPv6", "warning", machine.no_ipv6(), "this kernel has it"),
    ]
    return checks + [Check(what, level if wrong else "ok", wrong or well) for what, level, wrong, well in asked]


def guest_kernels() -> list[Check]:
    """Check whether each guest of --kernel starts. A guest that would have to be downloaded is not tried. Inside a
    guest, tell which one it is."""
    if kernels.guest_name():
        return [Check("guest kernel", "ok", f"this is {kernels.guest_name()}: the lines below say what it can run")]
    checks = []
    guests: list[kernels.Uml | kernels.Qemu] = [kernels.Uml(), *map(kernels.Qemu, SUITES)]
    for guest in guests:
        try:
            there, tried = guest.describe(), ""
            if not isinstance(guest, kernels.Qemu) or guest.folder.exists():
                started = time.monotonic()
                with output_to(io.TextIOWrapper(io.BytesIO())):
                    run_in(guest, ["true"])
                tried = f"; it started and ended in {time.monotonic() - started:.0f} s"
            checks.append(Check(f"guest kernel {guest.name}", "ok", there + tried))
        except (CannotRunHere, LabError) as lack:
            checks.append(Check(f"guest kernel {guest.name}", "warning", str(lack)))
    return checks
