"""What several unit tests share: a third site, captured outputs, nodes that answer from a table, and labs on paper."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from runner.data.errors import CommandError
from runner.data.levels import Params
from runner.data.packet import overhead_of
from runner.lab.node import Completed
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import NotedNode, PaperProcess

DATA = Path(__file__).parent / "captured"
GW1, GW2 = SITES
THREE = (*SITES, Site(3, "gw3", "192.168.0.3", "wan0", "10.3.0.0/24", "10.3.0.1", "10.3.0.2"))


def captured(name: str) -> str:
    return (DATA / name).read_text()


def report(name: str) -> dict[str, Any]:
    """A captured iperf3 test."""
    found: dict[str, Any] = json.loads(captured(f"iperf3-{name}.json"))
    return found


def named_secrets(vpn: Vpn, sites: tuple[Site, ...]) -> dict[str, str]:
    """The VPN's secrets, each with a text that says which it is."""
    return {name: f"[secret {name}]" for name in vpn.secrets(NotedNode("ca"), sites)}


def overhead_bytes(vpn: Vpn, params: Params, inner_bytes: int) -> int | None:
    """How many bytes longer an inner packet is on the WAN, by the plugin's closed form; None where it has none."""
    layers = vpn.encapsulation(params, inner_bytes)
    return None if layers is None else overhead_of(layers)


class Answers:
    """A node that runs nothing: stdout by the command's beginning; every other command fails."""

    def __init__(self, stdout: Mapping[str, str] | None = None, logs: Mapping[str, str] | None = None) -> None:
        self.name = "gw1"
        self.stdout, self.logs = stdout or {}, logs or {}
        self.ran: list[str] = []

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        command = " ".join(argv)
        self.ran.append(command)
        for start, stdout in self.stdout.items():
            if command.startswith(start):
                return Completed(0, stdout, "")
        assert not check, f"unexpected command: {command}"
        return Completed(1, "", "no such thing")

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        self.ran.append(" ".join(argv) + " &")
        return PaperProcess()

    def read_log(self, log: str) -> str:
        return self.logs.get(log, "")

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        raise AssertionError(f"unexpected file: {path}")

    def defer(self, *argv: str) -> None:
        pass


@dataclass
class PaperLab:
    """A lab of nodes that run nothing."""

    nodes: dict[str, Any]
    sites: tuple[Site, ...] = (GW1, GW2)
    shared_kernel: bool = True
    path: None = None
    rtt_s: float = 0.0
    path_loss_ratio: float = 0.0
    hosts_on_gateways: bool = False
    images: tuple[Any, ...] = ()

    @property
    def host1(self) -> Any:
        return self.nodes["host1"]

    @property
    def host2(self) -> Any:
        return self.nodes["host2"]

    def gateway(self, site: Site) -> Any:
        return self.nodes[site.name]


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A captured iperf3 test with something changed in it."""
    found = copy.deepcopy(report(name))
    change(found)
    return found


@dataclass
class Iperf:
    """host1 with an iperf3 that says ``says``; ``hangs`` makes it not come back."""

    says: str
    hangs: bool = False
    ran: list[str] = field(default_factory=list)

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        self.ran.append(" ".join(argv))
        if self.hangs:
            raise CommandError("host1", argv, None, "", timeout)
        return Completed(0, self.says, "")


def lab_with(iperf: Any, host2: Any = None) -> Lab:
    return cast(Lab, PaperLab({"host1": iperf, "host2": host2 or NotedNode("host2")}))
