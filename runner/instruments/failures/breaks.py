"""The failures of the site-to-site lab: a daemon restarted, a gateway rebooted, the WAN cut, a WAN address changed, the
node beside the gateways killed.

They end every process on a gateway. Only a lab of namespaces may be broken in this way, never somebody's machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from runner.data.errors import MeasurementError
from runner.data.levels import Params
from runner.instruments.failures.stream import Break
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site import Site, peers_of
from runner.lab.shape.site_to_site import Lab, batch
from runner.vpn.plugin import Vpn

DOWN_S = 2.0  # how long a rebooting gateway is away
CUT_S = 3.0  # how long the WAN is cut
NEW_ADDRESS = {4: "192.168.0.101/24", 6: "2001:db8::101/64"}
PORTS = ("lo", "lan0", "wan0")  # a gateway's own; what else is there was made by a tunnel
Note = Callable[[str], None]


def break_by(lab: Lab, vpn: Vpn, params: Params, failure: str) -> Break:
    """The function that causes ``failure``. Raises MeasurementError on a lab whose machines have other work, too."""
    if lab.kind != "netns":
        raise MeasurementError(f"a lab of kind {lab.kind} is not broken on purpose: its machines have other work, too")
    answering, dialing = lab.sites[-1], lab.sites[0]
    match failure:
        case "restart":
            return lambda note: restart(lab, vpn, params, answering, note)
        case "reboot":
            return lambda note: reboot(lab, vpn, params, answering, note)
        case "wan_cut":
            return lambda note: cut_wan(lab, note)
        case "beside":
            return lambda note: kill_beside(lab.nodes[vpn.beside], note)
        case "roaming":
            return lambda note: change_address(lab.gateway(dialing), dialing, note)
    raise AssertionError(f"nobody knows the failure {failure}")


def restart(lab: Lab, vpn: Vpn, params: Params, site: Site, note: Note) -> None:
    """As ``systemctl restart``: the daemons are told to end, do so, and are started again at once."""
    gateway = lab.gateway(site)
    note(f"{site.name}: SIGTERM to the VPN's daemons")
    end_all(gateway, "TERM")
    clear(gateway)
    note(f"{site.name}: daemons ended, started again")
    start(lab, vpn, params, site)
    note(f"{site.name}: start is done")


def reboot(lab: Lab, vpn: Vpn, params: Params, site: Site, note: Note) -> None:
    """Kill a gateway without a shutdown. It comes back ``DOWN_S`` later with its files and nothing else."""
    gateway = lab.gateway(site)
    note(f"{site.name}: killed, its ports down")
    batch(gateway, "link set lan0 down", f"link set {site.wan_interface} down")
    end_all(gateway, "KILL")
    clear(gateway)
    time.sleep(DOWN_S)
    batch(gateway, "link set lan0 up", f"link set {site.wan_interface} up")
    note(f"{site.name}: up again, daemons started")
    start(lab, vpn, params, site)
    note(f"{site.name}: start is done")


def cut_wan(lab: Lab, note: Note) -> None:
    """The WAN loses everything for ``CUT_S``, and no gateway's port notices."""
    note("the WAN is cut")
    batch(lab.wan, "link set gw2 nomaster")
    time.sleep(CUT_S)
    note("the WAN is whole again")  # told just before, as every event is: nothing that comes of it is earlier
    batch(lab.wan, "link set gw2 master br0")


def kill_beside(node: LabNode, note: Note) -> None:
    """Kill all that runs on the node beside the gateways. It does not come back."""
    note(f"{node.name}: killed")
    end_all(node, "KILL")


def change_address(gateway: LabNode, site: Site, note: Note) -> None:
    """The gateway's WAN address changes, as after a new DHCP lease; nobody tells the VPN."""
    gateway.run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
    new, port = NEW_ADDRESS[site.path_version], site.wan_interface
    address, _, prefix = new.partition("/")
    note(f"{site.name}: {site.wan_address} becomes {address}")
    at_once = " nodad" if site.path_version == 6 else ""  # an address that is still being tried is none (RFC 4862 §5.4)
    batch(gateway, f"addr add {new} dev {port}{at_once}", f"addr del {site.wan_address}/{prefix} dev {port}")


def start(lab: Lab, vpn: Vpn, params: Params, site: Site) -> None:
    """Bring the tunnel up on one gateway, its files being in place, as at first."""
    vpn.start(lab.gateway(site), site, peers_of(site, lab.sites), params)


def end_all(gateway: LabNode, signal: str) -> None:
    """Send ``signal`` to all processes on a gateway, which are the VPN's alone, and wait for their end; then KILL.

    kill(2): -1 means every process of the caller's PID namespace except its first one and the caller.
    """
    gateway.run("kill", f"-{signal}", "--", "-1", check=False)
    try:
        wait_until(lambda: not processes(gateway), "the daemons' end", deadline_s=5)
    except TimeoutError:
        gateway.run("kill", "-KILL", "--", "-1", check=False)
        wait_until(lambda: not processes(gateway), "the daemons' death", deadline_s=5)


def processes(gateway: LabNode) -> list[str]:
    """The commands that run on a gateway, without its first process and without this ps."""
    listed = [line.split() for line in gateway.run("ps", "-eo", "pid=,comm=,stat=").stdout.splitlines()]
    return [words[1] for words in listed if words[0] != "1" and words[1] != "ps" and not words[-1].startswith("Z")]


def clear(gateway: LabNode) -> None:
    """Take away what daemons leave behind: interfaces, routes, IPsec state and policies, sockets and PID files."""
    links = gateway.run("ip", "-o", "link", "show").stdout.splitlines()
    names = [line.split(": ")[1].partition("@")[0] for line in links]
    lines = [f"link del {name}" for name in names if name not in PORTS]
    lines += ["xfrm state flush", "xfrm policy flush", "route flush proto boot", "route flush table 220"]
    for line in lines:
        gateway.log(f"[{gateway.name}] ip {line}")
    # -force: a kernel's own tunnel devices cannot be deleted, and not every kernel has IPsec.
    gateway.run("ip", "-force", "-batch", "-", input="\n".join(lines) + "\n", check=False)
    gateway.run("find", "/run", "(", "-type", "s", "-o", "-name", "*.pid", ")", "-delete", check=False)
