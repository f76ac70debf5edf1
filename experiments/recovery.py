"""What happens to a tunnel when something breaks: how long nothing comes through, and which timers decide it."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """What a VPN needs beside its gateways is killed where it needs something."""
    return params.get("failure") != "beside" or bool(vpn.beside)


EXPERIMENT = Experiment(
    name="recovery",
    question="How long does each VPN interrupt traffic after a restart, a reboot, a WAN cut, a change of address, "
    "an overload, and the death of its coordinator?",
    method="Each VPN is set up as its makers advise. A thousand datagrams a second go each way. At a random "
    "moment one thing fails: the answering gateway's daemons are restarted; that gateway is dead for 2 s "
    "and returns without state; the WAN is cut for 3 s; the dialing gateway's WAN address changes, with "
    "roaming allowed if the VPN has it; a host that has sent all it can for 10 s stops; or what the VPN "
    "needs beside its gateways, as a coordinator, dies, and does not come back. The outage is the number "
    "of datagrams that were lost, or late by 400 ms, divided by their rate; after an overload, of those "
    "that were sent when it was over. If there is no recovery within 60 s, that is the result. "
    "The set-up time is the cold start. Each failure has a fresh lab. The profile thesis causes 30 "
    "failures of each kind, quick 3, smallest 1. See docs/failures.md.",
    source="RFC 2544 §26.5 (system recovery), RFC 6412, RFC 6413 (loss-derived method), RFC 6414 (protection), "
    "draft-ietf-bmwg-ipsec-term (failover)",
    metrics=("outage_ms", "setup_time", "rtt"),
    traffic=(measuring("recovery"), measuring("idle")),
    vary_traffic={"failure": ("restart", "reboot", "wan_cut", "roaming", "overload", "beside")},
    wanted=is_wanted,
    base="recommended",
)
