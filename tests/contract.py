"""The plugins' contract, the same on every lab: up, payload, evidence; and when it is down, nothing of it is left.

Other labs call ``contract`` from their own tests. Where there is none, as in a guest kernel, this file is run itself:
``pytest tests/contract.py -k "ipsec or ipip"``.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, version_names, vpn_names
from runner.data.levels import Params
from runner.lab import probes
from runner.lab.node import LabNode, wait_until
from runner.lab.places import NamespaceRig, Rig
from runner.lab.probes import undo
from runner.lab.redaction import is_public
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import DEFAULT
from runner.tunnel.bring_up import UP_WITHIN_S, Tunnel, bring_up, make_secrets, start_services, vpn_refusal
from runner.vpn.plugin import Vpn, confidential
from tests.lab.conftest import below, interfaces, mounts, parents, running

CONTRACT = ("none", "openvpn", "ssh_tun", "wireguard_go", "ipsec_user")  # of each way to carry, one; they run anywhere
# edge 1.3.1 takes its key as an argument, which everybody sees, or from its environment, which its user and root see.
ENVIRONMENTS = ("n2n",)
OLDER = ("vtun", "vtun_tcp", "vtun_ppp", "softether")  # only Debian 12 has them


def contract(
    rig: Rig, name: str, logs: Path, left: Callable[[], object], image: str = DEFAULT, gone_within_s: float = 15.0
) -> Tunnel:
    """Hold the VPN ``name``, comparably configured, to its contract in a lab of ``rig``; skips with the probe's reason.

    ``left`` tells what a lab may leave behind on its machines: interfaces, routes, processes, files. It must find the
    same after the lab as before it; ``this_machine`` is that of the namespace lab. Returns the tunnel that was up.
    """
    vpn, said = load_vpn(name), list[str]()
    params, found = vpn.comparable, rig.image(image)
    before = left()
    with rig.lab(found, log=said.append, logs=logs) as lab:
        if no := vpn_refusal(lab, vpn, params):
            assert no.reason
            pytest.skip(f"{name}: {no.reason}")
        secrets = make_secrets(vpn, rig.alone(found, said.append), lab.sites)
        start_services(lab)
        tunnel = bring_up(lab, vpn, params, secrets)
        works(lab, vpn, params, tunnel)
        tells_no_key(lab, name, secrets, logs, said)
    try:
        wait_until(lambda: left() == before, "everything as before", gone_within_s)
    except TimeoutError as late:
        raise AssertionError(f"{name} has left something: {before} before, {left()} after") from late
    return tunnel


def works(lab: Lab, vpn: Vpn, params: Params, tunnel: Tunnel) -> None:
    """Payload came through, on the WAN as promised, by the data path that the plugin names; a ping, where it carries
    IP."""
    assert tunnel.proof.delivered
    assert tunnel.proof.marker_on_wan is not confidential(params)
    assert tunnel.proof.captured_bytes >= tunnel.proof.sent_bytes
    assert tunnel.evidence.data_path.startswith(vpn.dataplane)
    assert 0 < tunnel.setup_s < UP_WITHIN_S
    far = lab.sites[-1].host_address
    ping = lab.host1.run("ping", "-c", "2", "-i", "0.1", "-W", "1", far, check=False)
    assert (ping.code == 0) is (vpn.carries == "ip")


def tells_no_key(lab: Lab, name: str, secrets: Mapping[str, str], logs: Path, commands: Sequence[str]) -> None:
    """No private secret of the VPN ``name`` is in a log, among the commands, in an argument vector or an environment of
    a node."""
    told = {path.name: path.read_bytes() for path in logs.iterdir() if path.is_file()}
    told["the commands"] = "\n".join(commands).encode()
    seen = dict[str, bytes]()
    for node in lab.nodes.values():
        for what in ("cmdline", "environ"):
            shown = node.run("sh", "-c", f"cat /proc/[0-9]*/{what}", check=False).stdout.encode()
            (seen if what == "environ" else told)[f"{what} of {node.name}"] = shown
    assert any(b"PATH=" in shown for shown in seen.values()), "something was seen"
    assert not (found := leaks(secrets, told)), found
    assert bool(found := leaks(secrets, seen)) is (name in ENVIRONMENTS), found


def forms(text: str) -> set[bytes]:
    """What of a secret would tell it: the whole, its lines, both in hexadecimal and Base64."""
    words = {text.strip(), *(line.strip() for line in text.splitlines() if len(line) >= 16 and "-----" not in line)}
    found = set()
    for word in words - {""}:
        data = word.encode()
        found |= {data, data.hex().encode(), data.hex().upper().encode(), base64.b64encode(data).rstrip(b"=")}
    return found


def leaks(secrets: Mapping[str, str], texts: Mapping[str, bytes]) -> list[str]:
    """The names of the texts that have a secret in them."""
    private = {form: name for name, text in secrets.items() if not is_public(name, text) for form in forms(text)}
    return [f"{name} in {where}" for where, text in texts.items() for form, name in private.items() if form in text]


# What the kernel makes by itself, once for ever, as it loads a tunnel's module (net.core.fb_tunnels_only_for_init_net).
FALLBACKS = {"erspan0", "gre0", "gretap0", "ip6_vti0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "tunl0"}


def this_machine() -> dict[str, set[str]]:
    """What the namespace lab could leave on this machine: interfaces, mounts, processes below this one."""
    processes = {str(pid) for pid in running(below({os.getpid()}, parents()))}
    return {"interfaces": interfaces() - FALLBACKS, "mounts": set(mounts().splitlines()), "processes": processes}


def network(node: LabNode) -> set[str]:
    """A node's network, as site mode's undo reads it."""
    program = probes.source("undo") + "\nprint(json.dumps(state()))"
    kinds = json.loads(node.run("python3", "-IS", "-", input=program).stdout)
    return {f"{kind} {name}: {how}" for kind, each in kinds.items() for name, how in each.items()}


class Deferred:
    """What a gateway's plugin has deferred, with the rules of site mode's undo."""

    def __init__(self, node: LabNode) -> None:
        self.node, self.commands, self.sysctls = node, list[tuple[str, ...]](), dict[str, str]()

    def add(self, *argv: str) -> None:
        """What is there already was not made by the plugin, or it says so too late."""
        if argv[0] == "sysctl":
            key = argv[-1].partition("=")[0]
            self.sysctls[key] = self.node.run("sysctl", "-n", key, check=False).stdout.strip()
        elif not (command := undo.lists(argv)) or not self.node.run(*command.split(), check=False).stdout:
            self.commands.append(argv)

    def undo(self) -> None:
        """Bring the VPN down as on a machine that stays: its processes, then its changes, last in, first out."""
        for process in self.node.background:
            process.stop()
        self.node.background.clear()
        for argv in reversed(self.commands):
            self.node.run(*argv, check=False)  # what went with the daemon is gone already
        for key, value in self.sysctls.items():
            self.node.run("sysctl", "-qw", f"{key}={value}", check=False)
        self.commands.clear()


@pytest.mark.parametrize("name", [*vpn_names(), *version_names()])
def test_contract(name: str, tmp_path: Path) -> None:
    contract(NamespaceRig(), name, tmp_path, this_machine, "bookworm" if name in OLDER else DEFAULT)
