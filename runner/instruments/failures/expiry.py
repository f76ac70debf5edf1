"""The gateways' certificates expire: what becomes of the tunnel that runs, and of one that is set up anew?

Control: with certificates that last, the same tunnel renews its keys, and comes back after the same restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.data.levels import Params, tunnel_levels
from runner.data.metric import verdict
from runner.instruments.failures.breaks import clear, end_all
from runner.instruments.instrument import Asked
from runner.instruments.path.verdict import NoControl, PathProbe, PathVerdict
from runner.instruments.traffic.soak import Renewals
from runner.lab.node import PATIENCE, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench, bring_up, start
from runner.vpn.plugin import Secrets, Vpn

VALID_S = 25  # a certificate, from when it is made: the tunnel has to be up by then
LASTING_S, AFTER_S = 25.0, 60.0  # watched: with certificates that last, and after the others have expired
REKEY_EVERY_S = "10"
LOOK_S = 0.5
BACK_S, TIMES = 60.0, 2.0  # a restart: how long the control has, and how many of its times the other


@dataclass(frozen=True)
class WatchedTunnel:
    """A running tunnel: ``watched_s``, until when in them it ``carried_s``, how often keys were ``renewed``, and how
    often a command to renew them ``failed``."""

    watched_s: float
    carried_s: float
    renewed: int
    failed: int

    @property
    def lives(self) -> bool:
        """Did it carry payload to the end?"""
        return self.watched_s - self.carried_s < LOOK_S + 1.5 * PATIENCE  # an answer has a second


def watch(bench: Bench, vpn: Vpn, seconds: float) -> WatchedTunnel:
    """Ask through the tunnel for so long, while its keys are renewed by the VPN's clock or by command."""
    renewals, begun = Renewals(bench, vpn, seconds), time.monotonic()
    carried_s, renewed, failed = 0.0, 0, 0
    while (at_s := time.monotonic() - begun) < seconds:
        try:
            came, fresh = renewals.look_while_renewing(partial(carries, bench))
            renewed += fresh
        except (CommandError, TimeoutError):
            failed, came = failed + 1, bench.carries_payload()
        if came:
            carried_s = time.monotonic() - begun
        time.sleep(LOOK_S)
    return WatchedTunnel(at_s, carried_s, renewed, failed)


def carries(bench: Bench, do: Callable[[], object]) -> float:
    """1 if the tunnel carries payload once ``do`` is done, else 0."""
    do()
    return float(bench.carries_payload())


def back_after(bench: Bench, vpn: Vpn, params: Params, limit_s: float) -> float | None:
    """How long until payload comes through after the daemons of both gateways were told to end, and were started
    again; None: not within ``limit_s``."""
    for site in bench.lab.sites:
        end_all(bench.lab.gateway(site), "TERM")
        clear(bench.lab.gateway(site))
    begun = time.monotonic()
    try:
        start(bench.lab, vpn, params)
        wait_until(bench.carries_payload, "payload", limit_s)
    except (CommandError, TimeoutError):
        return None
    return time.monotonic() - begun


def is_expired(lab: Lab, keys: Secrets) -> bool:
    """Does openssl(1) say of a gateway's certificate that it has expired?"""
    gateway = lab.gateway(lab.sites[0])
    return any(
        gateway.run("openssl", "x509", "-noout", "-checkend", "0", input=keys[name], check=False).code == 1
        for name in (f"{site.name}.crt" for site in lab.sites)
        if name in keys
    )


class Expiry(PathProbe):
    """Certificates that expire while the tunnel runs."""

    name = "expiry"
    metrics = (
        verdict(
            name="expiry_borne",
            title="Tunnel outlives its certificates",
            definition="Both gateways' certificates expire while the tunnel runs. The value is 1 if it still carries "
            f"payload {AFTER_S:.0f} s later, while it is asked for new keys by command, or by a clock of "
            f"{REKEY_EVERY_S} s, else 0.",
            source="RFC 5280 §4.1.2.5 (validity), RFC 4478 (repeated authentication in IKEv2)",
        ),
        verdict(
            name="expiry_refused",
            title="Expired certificates are refused",
            definition="Then the daemons of both gateways are restarted. The value is 1 if no payload comes through "
            "the tunnel, else 0.",
            source="RFC 5280 §6.1.3 (a)(2)",
        ),
    )
    takes_s = 170.0
    spends_tunnel = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.kind != "netns":
            return Unsupported("gateways are restarted in the namespace lab alone")
        if vpn.declared.security.authentication[:1] != ("certificate",):
            return Unsupported(f"{vpn.title} has no certificates here, and its keys do not expire")
        return None

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {"rekey_every_s": REKEY_EVERY_S}

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        vpn, levels = asked.vpn, tunnel_levels(asked.params) | self.asks(asked.params)
        lasting = watch(bench, vpn, LASTING_S)
        back_s = back_after(bench, vpn, levels, BACK_S)
        renews = vpn.lifecycle().rekeying.ways
        if not lasting.lives or back_s is None or (renews and not lasting.renewed):
            raise NoControl(f"with certificates that last: {lasting}; back after a restart: {back_s} s")
        control = {"renewed": lasting.renewed, "back_s": round(back_s, 1)}
        keys = bench.keys(lasts_s=VALID_S)
        ends = time.monotonic() + VALID_S + 1  # certificates count in seconds
        bench.lab = bench.bare()
        bench.tunnel = bring_up(bench.lab, vpn, levels, keys)
        if (left_s := ends - time.monotonic()) < 0:
            raise MeasurementError(f"the tunnel was not up within the {VALID_S} s in which its certificates are valid")
        time.sleep(left_s)
        after = watch(bench, vpn, AFTER_S)
        numbers = {"renewed": after.renewed, "failed": after.failed, "carried_s": round(after.carried_s)}
        kind = "dies" if not after.lives else "keys_stay" if renews and not after.renewed else "lives"
        again_s = back_after(bench, vpn, levels, 10 + TIMES * back_s)
        if again_s is not None and not is_expired(bench.lab, keys):
            raise MeasurementError("the tunnel was set up anew, and nothing here shows that its certificates expired")
        refused = PathVerdict("refused", 1.0, control, {}) if again_s is None else None
        return {
            "expiry_borne": PathVerdict(kind, float(after.lives), control, numbers),
            "expiry_refused": refused or PathVerdict("accepted", 0.0, control, {"back_s": round(again_s or 0, 1)}),
        }
