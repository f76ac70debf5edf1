"""A second gateway with strongSwan: it negotiates anew, or strongSwan's plugin ha has handed it the SAs.

Sources: swanctl(8); strongSwan's documentation, "High Availability"; strongswan.conf(5), start-scripts.
"""

from runner.lab.node import Node
from runner.vpn.lifecycle import HandOver, Standby
from vpns._esp import run_charon

LIVES = "pgrep -x 'charon|charon-systemd'"
FIFO = "timeout 1 sh -c 'echo \"{}1\" >/run/charon.ha'"  # tells the plugin ha what to do with its segment
TAKE, GIVE, AGAIN = (FIFO.format(sign) for sign in "+-*")
# + takes the segment's SAs over, - lets them go. The numbers of ESP begin anew, so that new keys are needed: not by *,
# which hands all SAs back to the other gateway, too, and spoils its IKE SA (docs/failures.md).
RENEW = "swanctl --rekey --child to-{peer.name}"
# The preferred gateway takes the segment as its daemon starts. Else it does so 2.1 s later, and strongSwan 6.0.1 dies
# where an IKE SA is half-way up then: "destroying incomplete IKE_SA %s[%d] after …" has its arguments swapped.
SCRIPT = "/etc/strongswan.d/take-segment"
TAKES_AT_ONCE = {
    SCRIPT: "#!/bin/sh\n(echo +1 >/run/charon.ha) &\n",
    "/etc/strongswan.d/zz-take.conf": f"charon-systemd {{ start-scripts {{ ha = {SCRIPT} }} }}\n",
}


def files(local: str, remote: str, preferred: bool, heartbeat_s: float, dead_after_s: float) -> dict[str, str]:
    """The plugin ha of one of the two gateways. No ``secret``: the link between them is the lab's own."""
    configuration = f"""\
ha {{
    load = yes
    local = {local}
    remote = {remote}
    segment_count = 1
    fifo_interface = yes
    heartbeat_delay = {heartbeat_s * 1e3:.0f}
    heartbeat_timeout = {dead_after_s * 1e3:.0f}
    monitor = yes
    resync = yes
}}
"""
    return {"/etc/strongswan.d/charon/ha.conf": configuration, **(TAKES_AT_ONCE if preferred else {})}


def prepare(node: Node) -> None:
    """The daemon runs and knows its connections, and dials nobody."""
    run_charon(node)
    node.run("swanctl", "--load-all", "--noprompt")


def has_state(node: Node) -> bool:
    """Has a gateway that stands by got both SAs, the one of IKE as a passive one?"""
    shown = node.run("swanctl", "--list-sas", check=False).stdout
    return "PASSIVE" in shown and "INSTALLED" in shown


STANDBY = Standby(
    active="swanctl --initiate --child to-{peer.name} --timeout 15",
    passive="swanctl --terminate --ike {peer.name} --force --timeout 1",
    alive=LIVES,
    prepare=prepare,
    hand_over=HandOver(
        files,
        active=f"{TAKE}\n{RENEW}",
        passive=GIVE,
        renew=RENEW,
        take=TAKE,
        again=AGAIN,
        has_state=has_state,
        port=4510,
        # dpd_delay of ipsec.py. What charon asks its peer while it has no address uses up a number of IKE's, too, and
        # that is handed over: so it matters in which phase of this the gateways change.
        phase_s=10.0,
    ),
)
