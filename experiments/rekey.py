"""New keys under load: what a rekey costs the traffic that is going on."""

from runner.experiment import REKEY, Experiment

EXPERIMENT = Experiment(
    name="rekey",
    question="What does a rekey cost the traffic of the moment, in throughput and in waiting?",
    method="A TCP stream fills the tunnel; the gateway is told three times to renew its keys: those of the data (ESP) "
    "or of the control channel (IKE), whose proposals are separate. The second before is compared with the one after. "
    "VPNs that rekey by their own clock alone, and have no command for it, are unsupported.",
    source="the device page, IPsec security & speed (hourly rekeys); RFC 7296 §2.8; swanctl(8) --rekey",
    metrics=("rekey_loss", "rekey_rtt"),
    traffic=(REKEY,),
    vary_traffic={"rekey": ("esp", "ike")},
)
