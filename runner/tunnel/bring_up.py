"""Bring a VPN up between the two gateways of a lab, timed, and prove that it is what was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from runner.data.errors import InstrumentError, MeasurementError, ProofError, Unsupported, VpnevalError
from runner.data.foreign import caught
from runner.data.levels import Params
from runner.data.trials import Evidence, Proof
from runner.lab import probes
from runner.lab.machine import apparmor_hint, modules_gone
from runner.lab.node import PATIENCE, LabNode, Node, Process, wait_until
from runner.lab.redaction import KNOWN
from runner.lab.shape.site import TCP_PORTS, Site, helper_site, peers_of
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import Topology
from runner.lab.software import builds, layers
from runner.lab.software.checksums import damage
from runner.tunnel.contradiction import refuse_contradiction, refuse_other_exchange
from runner.tunnel.inner import ipv6_through
from runner.tunnel.path import path_refusal
from runner.tunnel.proof import ANSWER_PORT, answers, has_answer, prove, renew_answering, start_answering
from runner.vpn.plugin import Secrets, Vpn, confidential, entry

UP_WITHIN_S = 15.0 * PATIENCE


@dataclass(frozen=True)
class Tunnel:
    """A proven tunnel: the address at which host1 reaches host2, how long it took to come up, and for each gateway the
    timers that decide how long it stays dead."""

    address: str
    setup_s: float
    evidence: Evidence
    proof: Proof
    timers: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Keys(Protocol):
    """Makes a VPN's secrets."""

    def __call__(self, *, others: bool = False, sites: Sequence[Site] = (), lasts_s: int = 0) -> Secrets:
        """The tunnel's own secrets; ``others``: new ones, as a stranger could make them; ``sites``: for these sites;
        ``lasts_s``: new ones, whose certificates of gateways expire after so long."""


def no_second_lab(*_: Any, **__: Any) -> Any:
    """In the place of what makes labs beside the tunnel's. Raises MeasurementError."""
    raise MeasurementError("this needs labs beside the tunnel's own, which only the namespace lab has (--lab netns)")


@dataclass
class Bench:
    """The lab and the tunnel that are measured now. ``renewal`` makes both anew, after a tunnel has broken."""

    lab: Lab
    tunnel: Tunnel
    renewal: Callable[[], tuple[Lab, Tunnel]]
    bare: Callable[[], Lab] = no_second_lab  # a fresh lab in the place of this one, without a tunnel
    keys: Keys = no_second_lab
    meshes: Callable[[Topology], AbstractContextManager[Lab]] = no_second_lab  # a lab of another shape, beside this one
    # The same tunnel in one more lab beside this one; None where only one can be there.
    another: Callable[[], AbstractContextManager[Bench]] | None = None
    _shared: dict[str, tuple[Any, ExitStack, str]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where host1 reaches host2 through the tunnel."""
        return self.tunnel.address

    def renew(self) -> None:
        """Replace lab and tunnel by new ones. Raises what ``bring_up`` raises, and LabError."""
        self.close()
        self.lab, self.tunnel = self.renewal()

    def get_shared(self, name: str, make: Callable[[], AbstractContextManager[Any]], *, port: str = "") -> Any:
        """The thing called ``name`` that the measurements in this tunnel share. The first call makes it by ``make``; it
        ends with the tunnel.

        ``port``: the port of a host that it occupies; what occupied that port before is ended. Raises what ``make``
        raises.
        """
        if name not in self._shared:
            self.free(port)
            ending = ExitStack()
            self._shared[name] = ending.enter_context(make()), ending, port
        return self._shared[name][0]

    def free(self, port: str) -> None:
        """End each shared thing that occupies this port of a host."""
        for name in [name for name, (_, _, held) in self._shared.items() if port and held == port]:
            self.forget(name)

    def forget(self, name: str) -> None:
        """End one shared thing; its next use makes a new one."""
        if name in self._shared:
            self._shared.pop(name)[1].close()

    def close(self) -> None:
        """End everything that the measurements share."""
        for name in reversed([*self._shared]):
            self.forget(name)

    def carries_payload(self) -> bool:
        """Does the far host still answer through the tunnel, within a second? Raises InstrumentError if it did not only
        because its probe had died."""
        if answers(self.lab.host1, self.address):
            return True
        if renew_answering(self.lab) and answers(self.lab.host1, self.address):
            raise InstrumentError("the far host's answering probe had died")
        return False


def make_secrets(
    vpn: Vpn, alone: AbstractContextManager[LabNode], sites: Sequence[Site], lasts_s: int = 0
) -> dict[str, str]:
    """Fresh keys by the VPN's own tools, made ``alone``: on a node without a network that goes afterwards. ``lasts_s``:
    how long the gateways' certificates are valid; 0: as long as the plugin says.

    From now on no log or message shows them. Raises UsageError for a secret that is too short for that.
    """
    with alone as ca:
        if vpn.brings_software:
            equip(ca, vpn)
        if lasts_s:
            ca.lasts_s = lasts_s
        made = vpn.secrets(ca, sites)
        KNOWN.learn(made)
        return made


def start_services(lab: Lab) -> None:
    """Start the far host's servers, and install the probe that asks them. Raises InstrumentError where one ends at
    once."""
    lab.host1.write(f"{probes.FOLDER}/ask.py", probes.source("ask"), mode=0o644)
    iperf3 = lab.host2.spawn("iperf3", "--server", "--port", str(TCP_PORTS[0]), log="iperf3-server")
    servers = {"answering probe": start_answering(lab), "iperf3 server": iperf3}

    def listening() -> bool:
        if dead := [name for name, server in servers.items() if not server.alive()]:
            raise InstrumentError(f"the far host's {' and '.join(dead)} ended as soon as it was started")
        sockets = lab.host2.run("ss", "-Hltn").stdout
        return all(f":{port} " in sockets for port in (TCP_PORTS[0], ANSWER_PORT))

    wait_until(listening, "the far host's servers listening")


def put_files(node: Node, vpn: Vpn, files: Mapping[str, str]) -> None:
    """Put the VPN's software onto the node, where it brings any, and then these files."""
    if vpn.brings_software:
        equip(node, vpn)
    for path, text in files.items():
        node.write(path, text)


def equip(node: Node, vpn: Vpn) -> Unsupported | None:
    """Are the VPN's tools on the node? Where they are missing, or of another version, and the VPN has a layer, it is
    unpacked there. A build then takes its place."""
    lacks, missing = missing_tools(node, vpn), ""
    if vpn.software.layer and (lacks or vpn.software.version):
        missing = layers.unpack(node, vpn.software.layer)
    if missing and vpn.software.version:
        return Unsupported(f"the gateway's image has another version than {vpn.software.version}: {missing}")
    if vpn.build and (libraries := builds.put(node, vpn.build)):
        return Unsupported(f"the build {vpn.name} needs what the gateway's image does not have: {libraries}")
    if lacks:
        lacks = missing_tools(node, vpn)
    if not lacks:
        return None
    packages = " ".join(sorted({vpn.software.tools[tool] for tool in lacks}))
    get = f"{missing}; or have your own {packages}" if missing else f"Debian: apt-get install {packages}"
    return Unsupported(f"the gateway has no {' and no '.join(lacks)} ({get})")


def missing_tools(node: Node, vpn: Vpn) -> list[str]:
    """The VPN's tools that the node lacks. One command for all: each costs a tenth of a second in a guest kernel."""
    paths = node.run("which", *vpn.software.tools, check=False).stdout.split() if vpn.software.tools else []
    return [tool for tool in vpn.software.tools if not any(path == tool or path.endswith(f"/{tool}") for path in paths)]


def vpn_refusal(lab: Lab, vpn: Vpn, params: Params) -> Unsupported | None:
    """Why the VPN cannot run in this lab, by the path, the tools, or the plugin's live probe on a gateway; else
    None. Raises InstrumentError where the lab's software is damaged."""
    if no := path_refusal(lab, vpn):
        return no
    if vpn.software.version and lab.kind != "netns":
        own = vpn.name.partition("@")[0]
        return Unsupported(f"{vpn.name} would take the place of the gateways' own software. Ask for {own} there")
    for site in lab.sites:
        gateway = lab.gateway(site)
        try:
            no = equip(gateway, vpn) or vpn.supports(gateway, params)
        except VpnevalError:
            refuse_damage(lab, vpn)
            raise
        if no:
            refuse_damage(lab, vpn)
            why = modules_gone() if no.cause == "no kernel" else apparmor_hint(no.said)
            return replace(no, reason=f"{no.reason} ({why})") if why and lab.shared_kernel else no
    return None


def refuse_damage(lab: Lab, vpn: Vpn) -> None:
    """Raise InstrumentError where the VPN's software in the lab is damaged. Ask when something has failed there."""
    if lab.images and (why := damage(lab.images, vpn.software.packages, vpn.software.layer)):
        raise InstrumentError(why)


def bring_up(lab: Lab, vpn: Vpn, params: Params, secrets: Mapping[str, str], *, judged: bool = True) -> Tunnel:
    """Files, daemons, tunnel, first payload; then evidence and proof.

    The set-up time runs from the first command on a gateway, keys and files being in place, to the first
    payload that the far host answered. That is of IPv4; where ``inner`` is asked for, IPv6 is proven after it.
    Raises TimeoutError, CommandError, ProofError, PluginError or MeasurementError.
    Unless ``judged``, a tunnel that shows plaintext on the WAN is brought up all the same: for probes that will say so.
    """
    KNOWN.learn(secrets)
    sites = lab.sites
    prepare_beside(lab, vpn, params, secrets)
    for site in sites:
        put_files(lab.gateway(site), vpn, vpn.render(site, peers_of(site, sites), params, secrets))

    address = entry(vpn, sites)
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", address, str(ANSWER_PORT), str(UP_WITHIN_S))
    first_payload = lab.host1.spawn(*ask, log="first-payload")
    started = time.monotonic()
    start(lab, vpn, params)
    if not has_answer(lab.host1, _exit_code(first_payload)):
        if renew_answering(lab):
            raise InstrumentError("the far host's answering probe had died before the tunnel was up")
        raise TimeoutError(f"no payload came through the tunnel within {UP_WITHIN_S:g} s: {_states(lab, vpn)}")
    setup_s = time.monotonic() - started

    evidences = []
    timers = {}
    for site in sites:
        peers = peers_of(site, sites)
        try:
            wait_until(partial(vpn.is_up, lab.gateway(site), site, peers), f"{vpn.name} up on {site.name}")
        except TimeoutError as late:
            raise TimeoutError(f"{late}, although payload came through: {_states(lab, vpn)}") from None
        evidences.append(vpn.evidence(lab.gateway(site), site, peers, params))
        refuse_contradiction(vpn, params, evidences[-1])
        timers[site.name] = vpn.lifecycle().timers_at(site, peers)
    evidence = next((evidence for evidence in evidences if evidence.data_path), None)
    if evidence is None:
        raise ProofError("the plugin returned no evidence of the data path in use")
    told = next((each.key_exchange for each in evidences if each.key_exchange), "")  # some tell it at one end only
    refuse_other_exchange(vpn, params, told)
    evidence = evidence.model_copy(update={"key_exchange": told})
    proof = prove(lab, address, confidential=confidential(params), judged=judged)
    if "inner" in params:
        of_ipv6 = ipv6_through(lab, vpn)
        proof = prove(lab, of_ipv6, confidential=confidential(params), judged=judged)
        address = of_ipv6 if params["inner"] == "6" else address
    return Tunnel(address, setup_s, evidence, proof, timers)


def _exit_code(first_payload: Process) -> int:
    """The exit code of the program that asks for the first payload. Raises InstrumentError if it has not ended long
    after its own time limit, which happens only if somebody stopped it."""
    try:
        return first_payload.wait(UP_WITHIN_S + 5)
    except TimeoutError as late:
        first_payload.stop()
        raise InstrumentError(f"the probe ask on host1 did not end in its time: {late}") from late


def start(lab: Lab, vpn: Vpn, params: Params) -> None:
    """Start the helper node, if the VPN needs one, then the VPN on every gateway, the last site's first. If one end
    must be first, ping its peers (2 s at most) before the next start, so that its first packets have arrived."""
    start_beside(lab, vpn, params)
    for site in reversed(lab.sites):
        gateway, peers = lab.gateway(site), peers_of(site, lab.sites)
        vpn.start(gateway, site, peers, params)
        for peer in peers if vpn.one_end_first and site is not lab.sites[0] else ():
            gateway.run("ping", "-q", "-c1", "-W2", peer.wan_address, check=False, timeout=15)


def prepare_beside(lab: Lab, vpn: Vpn, params: Params, secrets: Secrets) -> None:
    """Make the node that the VPN needs beside its gateways, if any, with its software and files. If it exists already,
    end what runs on it. Raises LabError, and MeasurementError if the lab has no place for the node."""
    if not vpn.beside:
        return
    plug_in_helper(lab, vpn)
    node = lab.nodes[vpn.beside]
    for process in node.background:
        process.stop()
    node.background.clear()
    put_files(node, vpn, vpn.render_beside(helper_site(lab.sites[0], vpn.beside), lab.sites, params, secrets))


def plug_in_helper(lab: Lab, vpn: Vpn) -> None:
    """Put the node that the VPN needs beside its gateways, if any, on the WAN, unless it is there. Raises as
    ``prepare_beside``."""
    if not vpn.beside or vpn.beside in lab.nodes:
        return
    if lab.plug_in is None:
        raise MeasurementError(f"this lab has no place for a {vpn.beside}")
    me = helper_site(lab.sites[0], vpn.beside)
    lab.plug_in(me)
    lab.helpers.append(me)


def start_beside(lab: Lab, vpn: Vpn, params: Params) -> None:
    """Start the node that the VPN needs beside its gateways, if any."""
    if vpn.beside:
        vpn.start_beside(lab.nodes[vpn.beside], helper_site(lab.sites[0], vpn.beside), lab.sites, params)


def _states(lab: Lab, vpn: Vpn) -> str:
    """What each gateway's plugin says about its tunnel, and which daemons have ended. It becomes part of a failure's
    reason."""
    states = [f"{vpn.beside}: {log} has ended with {how}" for log, how in _ended_beside(lab, vpn).items()]
    for site in lab.sites:
        gateway = lab.gateway(site)
        ended = "".join(f", but {log} has ended with {how}" for log, how in gateway.ended_commands().items())
        states.append(f"{site.name}: {_state(vpn, gateway, site, peers_of(site, lab.sites))}{ended}")
    return "; ".join(states)


def _ended_beside(lab: Lab, vpn: Vpn) -> dict[str, str]:
    return lab.nodes[vpn.beside].ended_commands() if vpn.beside else {}


def _state(vpn: Vpn, gateway: Node, site: Site, peers: Sequence[Site]) -> str:
    states = list[str]()
    # Only words for a message: the failure itself is already being raised.
    with caught(lambda error: states.append(f"is_up() of the plugin failed ({error})")):
        up = vpn.is_up(gateway, site, peers)
        states.append(f"the plugin says that the tunnel is {'up' if up else 'not up'}")
    return states[0]
