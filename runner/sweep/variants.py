"""What a trial may vary beside the tunnel's levels: whose crypto instructions are used, IKE's own proposal, a slower
second gateway, and how often keys are renewed. Each has a live probe, and says in the evidence what was done.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from runner.catalogue import instruments
from runner.data.errors import CommandError, LabError, MeasurementError, Unsupported
from runner.data.levels import BASELINE
from runner.lab.node import Node, wait_until
from runner.lab.readings.facts import SPEED, SPEED_BYTES
from runner.lab.shape.site_to_site import Lab
from runner.vpn.kernel_crypto import KERNEL
from runner.vpn.plugin import Vpn

# openssl-env(7): no instruction set beyond the oldest, so that OpenSSL takes its generic code. By architecture.
MASKS = {"x86_64": ("OPENSSL_ia32cap", "0x0:0x0"), "aarch64": ("OPENSSL_armcap", "0")}
# Parts of the kernel's names of drivers that use a CPU's instructions or a device (arch/*/crypto, drivers/crypto).
ACCELERATED = re.compile(r"aesni|avx|sse|simd|clmul|x86_64|asm|neon|-ce\b|-ni\b|\bp8|padlock|qat|ccp")
FASTER = 1.2  # what accelerated code must at least gain, to be called so
PERIOD_US = 20000  # of the CPU quota: short, so that no queue waits long; the kernel's least quota is 1000
GROUPS = Path("/sys/fs/cgroup")
Hold = Callable[[Lab], dict[str, str]]
_NUMBERS = count(1)
_SPEEDS: dict[tuple[str, bool], float] = {}


def refused(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why these levels cannot be had in this lab, or of this VPN; None where they can."""
    if "ike" in params and not vpn.offers.ike:
        return Unsupported(f"{vpn.title} has no IKE, so the factor ike cannot be set")
    if "gw2_cpu" in params:
        if vpn.dataplane == "kernel":
            return Unsupported(f"{vpn.title} works in the kernel: a CPU quota limits processes, not the kernel")
        if lab.kind != "netns":
            return Unsupported(f"vpneval cannot slow down the machines of a {lab.kind} lab: choose slower ones")
        if why := no_quota():
            return Unsupported(why)
    return _driver_refused(lab, vpn, params) if "driver" in params else None


def asked(params: Mapping[str, str]) -> dict[str, str]:
    """What these levels ask of the tunnel beside cipher, integrity and compression: more of a plugin's ``params``."""
    return {factor: params[factor] for factor in ("ike", "driver") if factor in params}


# --- The driver of the ciphers ---------------------------------------------------------------------------------------


def _driver_refused(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    gateway, wanted, cipher = lab.gateway(lab.sites[0]), params["driver"], _cipher(params)
    if by_openssl(vpn, params):
        if lab.kind != "netns":
            return Unsupported(
                f"vpneval does not change the environment of daemons on the machines of a {lab.kind} lab"
            )
        if platform.machine() not in MASKS:
            return Unsupported(
                f"vpneval can hide the instructions of {' and '.join(MASKS)} from OpenSSL, not {platform.machine()}'s"
            )
        try:
            fast, slow = (openssl_speed(gateway, cipher, generic=generic) for generic in (False, True))
        except (CommandError, MeasurementError) as error:
            return Unsupported(f"vpneval could not measure the speed of the gateway's OpenSSL: {error}")
        if fast < FASTER * slow:
            rates = f"{fast / 1e9:.2f} Gbit/s with this CPU's instructions, {slow / 1e9:.2f} without"
            return Unsupported(f"OpenSSL has only one driver of {cipher} on this machine: {rates} (openssl speed)")
        return None
    if vpn.dataplane != "kernel" or cipher not in KERNEL:
        return Unsupported(f"{vpn.title} offers no choice of crypto drivers that vpneval knows")
    found = kernel_drivers(gateway.run("cat", "/proc/crypto", check=False).stdout, KERNEL[cipher][1])
    if not found:
        return Unsupported(f"/proc/crypto has no {KERNEL[cipher][1]}, so it is unknown which driver the kernel uses")
    if (kind := driver_kind(found[0])) == wanted:
        return None
    others = [driver for driver in found if driver_kind(driver) == wanted]
    why = f"it has {others[0]}, and takes it for nobody: the priority is the whole machine's" if others else "no other"
    said = f"the kernel's driver of {cipher} is {found[0]}, which is {kind} (/proc/crypto)"
    return Unsupported(f"{said}; {wanted}: {why}")


def by_openssl(vpn: Vpn, params: Mapping[str, str]) -> bool:
    """Is what the trial encrypts encrypted by OpenSSL, by the VPN or by the instrument itself?"""
    return vpn.software.openssl or bool(instruments()[params["measure"]].openssl_cipher(params))


def set_driver(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> None:
    """Hide this CPU's instructions from OpenSSL in whatever is started on the gateways from now on, if asked for."""
    if params.get("driver") != "generic" or not (vpn.software.openssl or vpn.name == BASELINE):
        return
    variable, mask = MASKS[platform.machine()]
    for site in lab.sites:
        gateway = lab.gateway(site)
        gateway.log(f"[{gateway.name}] export {variable}={mask}")
        gateway.environment = {**gateway.environment, variable: mask}


def driver_said(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> dict[str, str]:
    """The driver in use, for the evidence: OpenSSL's own words and its speed, or the kernel's name of it."""
    if "driver" not in params:
        return {}
    gateway, cipher, generic = lab.gateway(lab.sites[0]), params["cipher"], params["driver"] == "generic"
    if not (vpn.software.openssl or vpn.name == BASELINE):
        found = kernel_drivers(gateway.run("cat", "/proc/crypto", check=False).stdout, KERNEL[cipher][1])
        return {"driver": found[0] if found else "unknown"}
    cpu = gateway.run("openssl", "version", "-c").stdout.partition("=")[2].split(maxsplit=1)
    known = _SPEEDS.get((_known(cipher), generic))
    speed = f"; openssl speed {_known(cipher)}: {known / 1e9:.2f} Gbit/s" if known else ""
    return {"driver": f"{MASKS[platform.machine()][0]} {cpu[0] if cpu else 'unknown'}{speed}"}


def openssl_speed(gateway: Node, cipher: str, *, generic: bool) -> float:
    """What OpenSSL encrypts in a CPU second of the gateway, bit/s, with or without this CPU's instructions.

    Measured once. Raises CommandError without openssl, MeasurementError where it says nothing (openssl-speed(1)).
    """
    key = (_known(cipher), generic)
    if key not in _SPEEDS:
        hide = ("env", "=".join(MASKS[platform.machine()])) if generic else ()
        argv = ("openssl", "speed", *SPEED[key[0]], "-bytes", str(SPEED_BYTES), "-seconds", "1", "-mr")
        said = gateway.run(*hide, *argv, timeout=15).stdout
        result = re.search(r"^\+F:.*:([0-9.]+)$", said, flags=re.MULTILINE)
        if result is None:
            raise MeasurementError(
                f"openssl speed {key[0]} printed nothing that vpneval can read: {said.strip()[-200:]}"
            )
        _SPEEDS[key] = float(result[1]) * 8
    return _SPEEDS[key]


def _cipher(params: Mapping[str, str]) -> str:
    return instruments()[params["measure"]].openssl_cipher(params) or params["cipher"]


def _known(cipher: str) -> str:
    """A cipher that openssl speed is asked for: the others of OpenSSL are judged by AES."""
    return cipher if cipher in SPEED else "aes-128-cbc"


def driver_kind(driver: str) -> str:
    """``accelerated`` or ``generic``, by the kernel's name of a driver."""
    return "accelerated" if ACCELERATED.search(driver) else "generic"


def kernel_drivers(crypto: str, name: str) -> list[str]:
    """The drivers of an algorithm in /proc/crypto's text, the one that the kernel takes first (proc_crypto(5))."""
    found = []
    for entry in crypto.split("\n\n"):
        fields = dict(re.findall(r"^(\w+)\s*: (.*)$", entry, flags=re.MULTILINE))
        if fields.get("name") == name and fields.get("internal") != "yes":
            found.append((int(fields["priority"]), fields["driver"]))
    return [driver for _, driver in sorted(found, reverse=True)]


# --- A slower second gateway -----------------------------------------------------------------------------------------


def no_quota() -> str:
    """Why no CPU quota can be set here; "" where it can (cgroups(7))."""
    try:
        with quota({"gw2_cpu": "0.5"}):
            return ""
    except OSError as error:
        return f"no CPU quota can be set here: {error.strerror}: {error.filename}"
    except LabError as error:
        return str(error)


@contextmanager
def quota(params: Mapping[str, str]) -> Iterator[Hold]:
    """A control group with gateway 2's share of one CPU, and what puts that gateway's processes into it.

    ``gw2_cpu``: the share, 0 to 1. Enter it before the lab, so that it goes after the lab's processes. Raises OSError
    where the groups are not ours to write, LabError where none of their hierarchies has the CPU.
    """
    if "gw2_cpu" not in params:
        yield lambda lab: {}
        return
    share = float(params["gw2_cpu"])
    folder = _cpu_hierarchy() / f"vpneval-{os.getpid()}-{next(_NUMBERS)}"  # several may stand at once
    for old in folder.parent.glob("vpneval-*"):  # of a run that was killed
        if not Path(f"/proc/{old.name.split('-')[1]}").exists():
            with suppress(OSError):
                old.rmdir()
    folder.mkdir(exist_ok=True)
    try:
        if (folder / "cpu.max").exists():  # version 2
            (folder / "cpu.max").write_text(f"{round(share * PERIOD_US)} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(round(share * PERIOD_US)))
        yield lambda lab: _hold(lab, folder, share)
    finally:
        with suppress(TimeoutError):
            wait_until(lambda: _removed(folder), "the control group empty", deadline_s=3)


def _cpu_hierarchy() -> Path:
    for folder in (GROUPS, GROUPS / "unified"):
        controllers = folder / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text().split():
            if "cpu" not in (folder / "cgroup.subtree_control").read_text().split():
                (folder / "cgroup.subtree_control").write_text("+cpu")
            return folder
    if (GROUPS / "cpu" / "cpu.cfs_quota_us").exists() or (GROUPS / "cpu" / "cgroup.procs").exists():
        return GROUPS / "cpu"
    raise LabError(f"no CPU quota can be set here: no control group hierarchy under {GROUPS} has the CPU (cgroups(7))")


def _hold(lab: Lab, folder: Path, share: float) -> dict[str, str]:
    """Move every process of gateway 2 into the group; what was moved, for the evidence."""
    gateway = lab.gateway(lab.sites[1])
    namespace = os.readlink(f"/proc/{gateway.pid}/ns/pid")
    names = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile
            if os.readlink(process / "ns" / "pid") == namespace:
                (folder / "cgroup.procs").write_text(process.name)
                names.append((process / "comm").read_text().strip())
    gateway.log(f"[{gateway.name}] # CPU quota of {share:.0%} of one core for {', '.join(names)}")
    return {"gw2_cpu": f"{share:.0%} of one core for {', '.join(sorted(names))}"}


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
