"""One application's packets treated otherwise than another's: what the OSLV paper proposes for the future."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="applications",
    question="Can a VPN treat the packets of one application otherwise than those of another?",
    method="The tunnel is to encrypt everything but the packets to one TCP port, which get integrity alone. vpneval "
    "sends a random marker to that port and one to another, and looks for both on the WAN.",
    source="OSLV paper, Conclusions and Future Work; RFC 4301 §4.4.1.1; swanctl.conf(5), children.local_ts",
    metrics=("functions_apart",),
    traffic=(measuring("applications"),),
    only=("ipsec",),  # whose selectors have ports; the configurations of others have no place for it
)
