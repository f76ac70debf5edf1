"""What a trial that breaks things needs before its tunnel comes up: topology, routing, redundancy, roaming."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from runner.data.errors import Unsupported
from runner.data.levels import WAN_FACTORS
from runner.design.profile import Profile
from runner.instruments.failures.cluster import heartbeat_of, no_clusterip
from runner.instruments.failures.redundancy import cannot, start_redundancy
from runner.instruments.failures.reroute import start_routing
from runner.instruments.instrument import MadeOf, Whole
from runner.lab.places import Rig
from runner.lab.shape.site_to_site import SITES, Lab
from runner.lab.shape.topologies import REDUNDANT, Topology, ospf, topology_lab
from runner.vpn.plugin import Vpn


def topology_of(params: Mapping[str, str]) -> Topology | None:
    """The topology that trials with these levels need, where it is not site-to-site."""
    if "redundancy" in params:
        return REDUNDANT
    return routed_topology(params) if "detection" in params else None


def routed_topology(params: Mapping[str, str]) -> Topology:
    """The routers of trials with these levels."""
    return ospf(params["endpoint"], params.get("uplinks", "two_routers"))


@contextmanager
def lab_for(rig: Rig, vpn: Vpn, params: Mapping[str, str], *made_of: *MadeOf) -> Iterator[Lab]:
    """The lab that trials with these levels need: the rig's own, unless they name another topology.

    Raises what the rig raises, and TimeoutError or MeasurementError where a router does not come up.
    """
    topology = topology_of(params)
    if topology is None:
        with rig.lab(*made_of) as lab:
            yield lab
        return
    with on_cpus(params.get("cpus")), topology_lab(topology, *made_of) as lab:
        if "redundancy" in params:
            start_redundancy(lab, vpn, params["redundancy"], heartbeat_of(params))
        else:
            start_routing(topology, lab, params["detection"])
        yield lab


@contextmanager
def on_cpus(wanted: str | None) -> Iterator[None]:
    """Processes started in this block run on the first ``wanted`` CPUs; None: on all of them.

    By sched_setaffinity(2), which children inherit; the sender's CPU does the work on its packets.
    """
    before = os.sched_getaffinity(0)
    try:
        if wanted:
            os.sched_setaffinity(0, sorted(before)[: int(wanted)])
        yield
    finally:
        os.sched_setaffinity(0, before)


def plugin_params(params: Mapping[str, str]) -> dict[str, str]:
    """More of a plugin's ``params``, which these levels need: the gateway whose address will change."""
    changes = params.get("failure") == "roaming" or params.get("detection") == "static"
    return {"roaming": SITES[0].name} if changes else {}


def failure_refusal(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why these trials cannot be done at all in this lab, or with this VPN; None where they can."""
    if lab.kind != "netns":
        return Unsupported(f"machines of a {lab.kind} lab are not broken on purpose: they may have other work")
    if vpn.carries == "tcp":
        return Unsupported(f"{vpn.title} carries TCP only, and the probe stream is datagrams", cause="tcp only")
    if params.get("failure") == "beside" and not vpn.beside:
        return Unsupported(f"{vpn.title} needs nothing beside its gateways")
    if vpn.beside and (topology := topology_of(params)) and "wan" not in topology.bridges:
        return Unsupported(f"this topology has no place for the {vpn.beside} of {vpn.title}")
    if "redundancy" in params and (why := cannot(vpn, params["redundancy"])):
        return Unsupported(why)
    there = len(os.sched_getaffinity(0))
    if int(params.get("cpus", "1")) > there:
        return Unsupported(f"needs SMP: {params['cpus']} CPUs asked for, and this kernel gives us {there}")
    if params.get("redundancy") == "clusterip" and (why := no_clusterip(lab.gateway(lab.sites[0]))):
        return Unsupported(why)
    standby = vpn.lifecycle().standby
    if params.get("gateway_failure") == "daemon" and standby and not standby.daemon:
        return Unsupported(f"{vpn.title} has no daemon that could die")
    wan = [factor for factor in WAN_FACTORS if factor in params]
    if wan and topology_of(params):
        return Unsupported(f"this topology has a WAN and addresses of its own: {', '.join(wan)} cannot be set")
    return None


class Breaking(Whole):
    """An instrument that breaks something: each failure has a lab of its own, because it changes the lab."""

    one_failure_s = 25.0  # with its lab and its stream, on average

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return failure_refusal(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return self.one_failure_s * profile.failures

    lab = staticmethod(lab_for)

    def own_wan(self, params: Mapping[str, str]) -> bool:
        return topology_of(params) is not None

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return plugin_params(params)
