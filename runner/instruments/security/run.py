"""All probes of a tunnel, one after the other, as measurements: 1 is pass, 0 is fail, and no value is inconclusive."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack

from runner.data import strength
from runner.data.errors import CommandError, MeasurementError, ProofError
from runner.data.kinds import LARGEST
from runner.data.levels import Params, tunnel_levels
from runner.data.metric import Metric, verdict
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.security.diversion import diversion
from runner.instruments.security.down import probe_while_down
from runner.instruments.security.leak import leak
from runner.instruments.security.lengths import content, lengths
from runner.instruments.security.replay import replay
from runner.instruments.security.stranger import stranger
from runner.instruments.security.tampering import tampering
from runner.instruments.security.vantage import PORT, ProbeOutcome, Vantage, inconclusive, vantage
from runner.instruments.security.wrong_key import wrong_key
from runner.instruments.tools.visits import HTTP_SERVER
from runner.papers.tables import paper_security
from runner.tunnel.bring_up import Bench
from runner.vpn import scale
from runner.vpn.declared import UNDECLARED
from runner.vpn.plugin import Vpn

# Metric -> the probe that gives it, in their order: those that may break the tunnel last.
PROBES: dict[str, Callable[[Vantage], ProbeOutcome]] = {
    "confidentiality": leak,
    "length_hiding": lengths,
    "content_hiding": content,
    "peer_authentication": stranger,
    "diversion_resistance": diversion,
    "anti_replay": replay,
    "data_integrity": tampering,
    "fail_closed": probe_while_down,
}
WRONG_KEY = "key_authentication"
# The column of the OSLV paper's Table 4 that judges the same by reading.
COLUMNS = {
    **{name: name for name in ("confidentiality", "data_integrity", "anti_replay")},
    **dict.fromkeys(("peer_authentication", WRONG_KEY), "authentication"),
}
WITH_COMPRESSION = ("confidentiality", "content_hiding")  # what compression may change
TROUBLE = (MeasurementError, CommandError, ProofError, TimeoutError)


def security(bench: Bench, vpn: Vpn, params: Params, only: Collection[str] = ()) -> Measured:
    """Probe the tunnel that is up, or, of the probes, ``only`` some; and rate what the plugin declares.

    Nothing here raises for a VPN's failure. Afterwards the tunnel is gone. Raises MeasurementError where the lab has no
    machine between the gateways, and LabError where it is broken.
    """
    bench.lab.wan  # noqa: B018 - raises where there is none, and everything would be inconclusive
    wanted = only or (WITH_COMPRESSION if compresses(params) else (*PROBES, WRONG_KEY))
    outcomes = on_the_tunnel(bench, vpn, [name for name in PROBES if name in wanted])
    if WRONG_KEY in wanted:
        try:
            began = time.monotonic()
            outcomes[WRONG_KEY] = wrong_key(bench, vpn, tunnel_levels(params))
            outcomes[WRONG_KEY].detail["took_s"] = round(time.monotonic() - began, 2)
        except TROUBLE as trouble:
            outcomes[WRONG_KEY] = inconclusive(str(trouble))
    measured = results(outcomes)
    printed = paper_security(vpn.name)
    for value in measured.measurements:
        if (column := COLUMNS.get(value.metric, "")) in printed:
            value.detail["paper_table_4"] = printed[column]
    if not only and not compresses(params):
        rate(measured, vpn, params, outcomes)
    return measured


def compresses(params: Mapping[str, str]) -> bool:
    """Is compression on at these levels?"""
    return params.get("compression", "off") != "off"


def on_the_tunnel(bench: Bench, vpn: Vpn, names: list[str]) -> dict[str, ProbeOutcome]:
    """The probes of a live tunnel. After a probe that breaks it, the next one gets a new tunnel."""
    outcomes: dict[str, ProbeOutcome] = {}
    with ExitStack() as place:
        at: Vantage | None = None
        for name in names:
            try:
                if at is None or not bench.carries_payload():
                    place.close()
                    at = None
                    if f":{PORT} " in bench.lab.host2.run("ss", "-Hltn").stdout or not bench.carries_payload():
                        bench.renew()
                    at = place.enter_context(vantage(bench.lab, vpn, bench.address))
                at.begin()
                outcome = PROBES[name](at)
                at.look()
                took = {"took_s": at.took_s(), "evidence": at.evidence(name.replace("_", "-"))}
                outcomes[name] = ProbeOutcome(
                    outcome.result, outcome.reason, outcome.control, {**outcome.detail, **took}
                )
            except TROUBLE as trouble:
                outcomes[name] = inconclusive(str(trouble))
    return outcomes


def results(outcomes: Mapping[str, ProbeOutcome]) -> Measured:
    """A value for each probe that came to a result; the reasons of the others are in ``attempt`` and the warnings."""
    measured = Measured()
    for metric, outcome in outcomes.items():
        if outcome.result == "inconclusive":
            measured.attempt.setdefault("inconclusive", {})[metric] = {"reason": outcome.reason, **outcome.detail}
            measured.warnings.append(f"{metric}: inconclusive: {outcome.reason}")
            continue
        detail = {"result": outcome.result, "reason": outcome.reason, "control": outcome.control, **outcome.detail}
        measured.measurements.append(measurement(metric, float(outcome.result == "pass"), **detail))
    return measured


def rate(measured: Measured, vpn: Vpn, params: Params, outcomes: Mapping[str, ProbeOutcome]) -> None:
    """Add the declared strength as one more value. A failed probe outranks it: each takes PER_FAILURE points away."""
    declared = vpn.declared.security
    if vpn.declared is UNDECLARED:
        reason = "the plugin declares nothing of its security"
        measured.attempt.setdefault("inconclusive", {})["declared_strength"] = {"reason": reason}
        return
    rating = scale.rate(declared, params)
    failed = [name for name in strength.OUTRANKING if name in outcomes and outcomes[name].result == "fail"]
    measured.measurements.append(
        measurement(
            "declared_strength",
            float(rating.points - strength.PER_FAILURE * len(failed)),
            declared_points=rating.points,
            strength_bits=rating.bits,
            reasons=list(rating.reasons),
            outranked_by=failed,
            sources=list(declared.sources),
            as_of=declared.as_of,
        )
    )


class SecurityProbes(Whole):
    """All probes of a tunnel's security, which use it up."""

    name = "security"
    metrics = (
        verdict(
            name="confidentiality",
            title="Confidentiality",
            short="Leak",
            definition="A random marker goes through the tunnel in both directions. The value is 1 if no part of it "
            "is readable on the WAN, else 0.",
            source="RFC 3552 §3.2.1 (confidentiality violations); OSLV paper, Table 4; docs/security.md",
        ),
        verdict(
            name="data_integrity",
            title="Data integrity",
            short="Tamp.",
            definition="The probe flips bits of outer packets on their way. The value is 1 if nothing altered is "
            "delivered, else 0.",
            source="RFC 3552 §3.3.3 (message modification); OSLV paper, Table 4; docs/security.md",
        ),
        verdict(
            name="anti_replay",
            title="Anti-replay",
            short="Repl.",
            definition="The probe sends packets of the tunnel again, at once and later. The value is 1 if every "
            "message is delivered only once, else 0.",
            source="RFC 3552 §3.3.1 (replay attacks), RFC 4303 §3.4.3; OSLV paper, Table 4; docs/security.md",
        ),
        verdict(
            name="peer_authentication",
            title="Refuses packets of strangers",
            short="Peer",
            definition="A stranger without a key sends packets on the WAN. The value is 1 if none of them is "
            "delivered to the far host, else 0.",
            source="RFC 3552 §3.3.2 (message insertion); OSLV paper, Table 4; docs/security.md",
        ),
        verdict(
            name="key_authentication",
            title="Refuses peers with other keys",
            short="Key",
            definition="At each end in turn, a peer runs the same VPN with private keys of its own. The value is 1 if "
            "no payload comes through with it, else 0.",
            source="RFC 3552 §3.3.5 (man-in-the-middle); OSLV paper, Table 4; docs/security.md",
        ),
        verdict(
            name="fail_closed",
            title="Fails closed",
            short="Down",
            definition="The probe cuts off the peer, and later kills the VPN's processes on the near gateway, which "
            "has a default route to the WAN. The value is 1 if no packet between the sites is readable on the WAN, "
            "else 0.",
            source="RFC 4301 §5.1 (what matches no policy is discarded); docs/security.md",
        ),
        verdict(
            name="diversion_resistance",
            title="Cannot be diverted",
            definition="A stranger without a key sends the far gateway packets from a third address: captured ones "
            "unchanged, and altered ones. The value is 1 if the gateway sends no payload to that address, else 0.",
            source="RFC 9146 §6 (when a peer's address may be updated), RFC 9000 §9.3.1; docs/security.md",
        ),
        verdict(
            name="length_hiding",
            title="Hides lengths",
            definition="The value is 1 if the lengths of the packets on the WAN do not follow those of the packets "
            "inside the tunnel (correlation below 0.5), else 0.",
            source="RFC 4303 §2.7 (traffic flow confidentiality padding), RFC 3552 §3.2.1; docs/security.md",
        ),
        verdict(
            name="content_hiding",
            title="Lengths do not tell content",
            definition="The value is 1 if repetitive content is as long on the WAN as random content (within 5 %), "
            "else 0.",
            source="RFC 7457 §2.6 (CRIME); docs/security.md",
        ),
        Metric(
            name="declared_strength",
            title="Declared strength",
            short="Decl.",
            unit="1",
            better="higher",
            definition="Points from 0 to 10 for the security that the plugin declares at these levels, by the scale "
            "in docs/security.md. Each failed probe of confidentiality, integrity, replay, authentication or failing "
            "closed takes away 11 points.",
            source="docs/security.md; runner/vpn/declared.py, with its sources",
            exact=True,
            bounds=(-LARGEST, 10.0),
        ),
    )
    inner_ipv6 = True
    spends_tunnel = True
    finds_plaintext = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 12.0

    def once(self, bench: Bench, asked: Asked) -> Measured:
        bench.free(HTTP_SERVER)  # a witness listens there
        return security(bench, asked.vpn, asked.params)
