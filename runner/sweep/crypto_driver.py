"""The factor ``driver``: whose crypto instructions are used, with a live probe, and what the evidence says of it."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping

from runner.catalogue import instruments
from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.data.levels import BASELINE
from runner.lab.node import Node
from runner.lab.node.proc import algorithms
from runner.lab.readings.facts import SPEED, SPEED_BYTES
from runner.lab.shape.site_to_site import Lab
from runner.vpn.kernel_crypto import KERNEL
from runner.vpn.plugin import Vpn

# openssl-env(7): no instruction set beyond the oldest, so that OpenSSL takes its generic code. By architecture.
MASKS = {"x86_64": ("OPENSSL_ia32cap", "0x0:0x0"), "aarch64": ("OPENSSL_armcap", "0")}
# Parts of the kernel's names of drivers that use a CPU's instructions or a device (arch/*/crypto, drivers/crypto).
ACCELERATED = re.compile(r"aesni|avx|sse|simd|clmul|x86_64|asm|neon|-ce\b|-ni\b|\bp8|padlock|qat|ccp")
FASTER = 1.2  # what accelerated code must at least gain, to be called so
_SPEEDS: dict[tuple[str, bool], float] = {}


def driver_refusal(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why the level of the factor ``driver`` cannot be had here; None where it can, and where none is asked for."""
    if "driver" not in params:
        return None
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
    drivers = kernel_drivers(gateway.run("cat", "/proc/crypto", check=False).stdout, KERNEL[cipher][1])
    if not drivers:
        return Unsupported(f"/proc/crypto has no {KERNEL[cipher][1]}, so it is unknown which driver the kernel uses")
    if (kind := driver_kind(drivers[0])) == wanted:
        return None
    others = [driver for driver in drivers if driver_kind(driver) == wanted]
    why = f"it has {others[0]}, and takes it for nobody: the priority is the whole machine's" if others else "no other"
    current = f"the kernel's driver of {cipher} is {drivers[0]}, which is {kind} (/proc/crypto)"
    return Unsupported(f"{current}; {wanted}: {why}")


def by_openssl(vpn: Vpn, params: Mapping[str, str]) -> bool:
    """Does OpenSSL encrypt what the trial sends, on behalf of the VPN or of the instrument itself?"""
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
        drivers = kernel_drivers(gateway.run("cat", "/proc/crypto", check=False).stdout, KERNEL[cipher][1])
        return {"driver": drivers[0] if drivers else "unknown"}
    cpu = gateway.run("openssl", "version", "-c").stdout.partition("=")[2].split(maxsplit=1)
    known = _SPEEDS.get((_known_cipher(cipher), generic))
    speed = f"; openssl speed {_known_cipher(cipher)}: {known / 1e9:.2f} Gbit/s" if known else ""
    return {"driver": f"{MASKS[platform.machine()][0]} {cpu[0] if cpu else 'unknown'}{speed}"}


def openssl_speed(gateway: Node, cipher: str, *, generic: bool) -> float:
    """What OpenSSL encrypts in a CPU second of the gateway, bit/s, with or without this CPU's instructions.

    Measured once. Raises CommandError without openssl, MeasurementError where it says nothing (openssl-speed(1)).
    """
    key = (_known_cipher(cipher), generic)
    if key not in _SPEEDS:
        hide = ("env", "=".join(MASKS[platform.machine()])) if generic else ()
        argv = ("openssl", "speed", *SPEED[key[0]], "-bytes", str(SPEED_BYTES), "-seconds", "1", "-mr")
        output = gateway.run(*hide, *argv, timeout=15).stdout
        result = re.search(r"^\+F:.*:([0-9.]+)$", output, flags=re.MULTILINE)
        if result is None:
            raise MeasurementError(
                f"openssl speed {key[0]} printed nothing that vpneval can read: {output.strip()[-200:]}"
            )
        _SPEEDS[key] = float(result[1]) * 8
    return _SPEEDS[key]


def _cipher(params: Mapping[str, str]) -> str:
    return instruments()[params["measure"]].openssl_cipher(params) or params["cipher"]


def _known_cipher(cipher: str) -> str:
    """The cipher that openssl speed measures for this one: AES, for those that it cannot measure itself."""
    return cipher if cipher in SPEED else "aes-128-cbc"


def driver_kind(driver: str) -> str:
    """``accelerated`` or ``generic``, by the kernel's name of a driver."""
    return "accelerated" if ACCELERATED.search(driver) else "generic"


def kernel_drivers(crypto: str, name: str) -> list[str]:
    """The drivers of an algorithm in /proc/crypto's text, the one that the kernel takes first (proc_crypto(5))."""
    return [entry["driver"] for entry in algorithms(crypto) if entry["name"] == name]
