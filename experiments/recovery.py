"""What happens to a tunnel when something breaks: how long nothing comes through, and which timers decide it."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="recovery",
    question="How long does each VPN keep traffic waiting after a restart, a reboot, a WAN cut and a new address?",
    method="As its makers advise. A thousand datagrams a second each way; then, at a random moment, one failure: the "
    "answering gateway's daemons restarted, that gateway dead for 2 s and back cold, the WAN cut for 3 s, or another "
    "WAN address for the dialing gateway, with roaming allowed where a VPN can. What is lost or late by 400 ms, over "
    "the rate, is the outage; 60 s without recovery is a result. The set-up time beside it is the cold start. Each "
    "failure has a fresh lab; 30 failures of each kind in the thesis profile, 3 in quick, 1 in smallest. See "
    "docs/failures.md.",
    source="RFC 6412, RFC 6413 (loss-derived method), RFC 6414 (protection), draft-ietf-bmwg-ipsec-term (failover)",
    metrics=("outage_ms", "setup_time", "rtt"),
    traffic=(measuring("recovery"), measuring("idle")),
    vary_traffic={"failure": ("restart", "reboot", "wan_cut", "roaming")},
    base="recommended",
)
