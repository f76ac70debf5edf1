"""The failures of the active one of two gateways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.data.errors import MeasurementError
from runner.instruments.failures.breaks import processes
from runner.instruments.failures.cluster import silence
from runner.instruments.failures.redundancy import PAIR, hand_over_of, is_active
from runner.instruments.failures.stream import Break
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, batch
from runner.vpn.plugin import Vpn

Note = Callable[[str], None]
FAILURES = {
    "interface": "the WAN interface of the active gateway goes down",
    "gateway": "the active gateway dies with all its ports",
    "daemon": "the VPN's daemon on the active gateway is killed",
    "sync_link": "the two gateways do not hear each other any more",
    "return": "the preferred gateway, whose WAN interface was down, comes back",
}


def break_gateway(lab: Lab, vpn: Vpn, failure: str, redundancy: str) -> Break:
    """The function that causes ``failure`` of the active gateway."""
    preferred, second = (lab.nodes[name] for name in PAIR)
    match failure:
        case "interface":
            return lambda note: ports(preferred, note, "down", "wan0")
        case "gateway":
            return lambda note: kill(preferred, note)
        case "daemon":
            names = daemons(preferred)  # beforehand, for a slow guest takes seconds to tell
            return lambda note: kill_daemons(preferred, names, note)
        case "sync_link" if redundancy == "clusterip":
            return lambda note: silence(lab, PAIR, hand_over_of(vpn).port, note)
        case "sync_link":
            return lambda note: ports(preferred, note, "down", "sync0")
        case "return":
            ports(preferred, lambda what: None, "down", "wan0")
            wait_until(lambda: is_active(lab, second.name), f"{second.name} active", 20)
            return lambda note: ports(preferred, note, "up", "wan0")
    raise AssertionError(f"nobody knows the failure {failure}")


def ports(gateway: LabNode, note: Note, state: str, *names: str) -> None:
    """Set ports of a gateway up or down."""
    note(f"{gateway.name}: {' and '.join(names)} {state}")
    batch(gateway, *(f"link set {name} {state}" for name in names))


def kill(gateway: LabNode, note: Note) -> None:
    """Set the gateway's ports down and kill all its processes, so that no daemon can send a goodbye.

    The ports go first, and together: the kernel's part goes on without any process, for seconds in a slow guest.
    """
    ports(gateway, note, "down", "wan0", "lan0", "sync0")
    gateway.run("kill", "-KILL", "--", "-1", check=False)


def daemons(gateway: LabNode) -> list[str]:
    """The names of the VPN's processes on a gateway, without those that move the tunnel. Raises MeasurementError where
    there is none."""
    names = sorted({name for name in processes(gateway) if name not in ("keepalived", "python3")})
    if not names:
        raise MeasurementError("this VPN runs no daemon that could be killed")
    return names


def kill_daemons(gateway: LabNode, names: Sequence[str], note: Note) -> None:
    """Kill the processes of those names on a gateway."""
    note(f"{gateway.name}: SIGKILL to {', '.join(names)}")
    gateway.run("pkill", "-KILL", "-x", "|".join(names), check=False)
