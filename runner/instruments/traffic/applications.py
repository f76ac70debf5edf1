"""Two applications in one tunnel, of which one is encrypted and the other is not, by their ports."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import verdict
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.lab import probes
from runner.lab.node import wait_until
from runner.lab.shape.site import TCP_PORTS
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT, describe_packet, send_marker
from runner.vpn.plugin import Vpn

APART = TCP_PORTS[2]  # the application that needs no encryption


def applications(lab: Lab, address: str) -> Measured:
    """Is a marker to one port seen on the WAN, between the gateways, and one to another port not?

    Raises MeasurementError where a marker does not arrive, or the capture lost frames.
    """
    lab.host2.write(f"{probes.FOLDER}/answer.py", probes.source("answer"), mode=0o644)
    second = lab.host2.spawn("python3", "-IS", f"{probes.FOLDER}/answer.py", str(APART), log="apart-answer")
    wait_until(lambda: f":{APART} " in lab.host2.run("ss", "-Hltn").stdout, "the second application listening")
    seen: dict[str, str] = {}
    for port in (ANSWER_PORT, APART):
        proof, reports, complaint = send_marker(lab, address, confidential=port == ANSWER_PORT, port=port)
        if not proof.delivered:
            raise MeasurementError(f"the marker to port {port} did not arrive: {complaint.strip()[-200:]}")
        if any(report["lost"] for report in reports):
            raise MeasurementError("the WAN capture lost frames, so it proves nothing")
        places = [describe_packet(*place) for report in reports for place in report["where"] if place]
        seen[str(port)] = places[0] if places else ""
    second.stop()
    between_gateways = " > ".join(site.wan_address for site in lab.sites)  # in the tunnel, that is, and not beside it
    apart = between_gateways in seen[str(APART)] and not seen[str(ANSWER_PORT)]
    value = measurement("functions_apart", float(apart), seen_on_wan=seen)
    return Measured([value])


class Applications(Whole):
    """Other functions for another port."""

    name = "applications"
    factors = {"apart_port": Levels((str(APART),), default=str(APART), before=True)}
    metrics = (
        verdict(
            name="functions_apart",
            title="Functions by application",
            definition="The tunnel is to encrypt the packets to one TCP port, and to give those to another integrity "
            "alone. The value is 1 if a marker to the second port is seen on the WAN, in a packet between the "
            "gateways, and one to the first is not, else 0.",
            source="OSLV paper, Conclusions and Future Work; RFC 4301 §4.4.1.1 (selectors)",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if not lab.has_wan:
            return Unsupported("this needs a machine between the gateways, where packets are captured")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 3.0

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {"apart": params["apart_port"]}

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return applications(bench.lab, bench.address)
