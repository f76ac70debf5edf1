"""New keys under load: what a rekey costs the traffic that is going on."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn

IKE = "aes128-sha256-modp4096"  # a group that takes the CPU long


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """Each VPN's own ways to renew its keys; where it has none that is short, the command that it lacks.

    A rekey by the protocol's clock takes two minutes: who wants that names it (``--set rekey=protocol``).
    """
    if "ike" in params:
        quick = (params["rekey"], params["ike"]) == ("ike", IKE)
        return bool(vpn.offers.ike) and (quick or profile.name == "thesis")
    ways = [way for way in vpn.lifecycle().rekeying.ways if way != "protocol" or profile.name == "thesis"] or ["esp"]
    return params["rekey"] in ways


EXPERIMENT = Experiment(
    name="rekey",
    question="What does a rekey cost the traffic at that moment, in throughput and in delay?",
    method="A TCP stream fills the tunnel while keys are renewed. For IPsec a command renews them, three times: "
    "the keys of the data (ESP) or of the control channel (IKE), which have separate proposals. OpenVPN, "
    "SSH and tinc renew them by a timer, set to 6 s, twice. WireGuard renews them by the protocol's timer "
    "of 120 s, once. vpneval compares the second before the rekey with the second after it, or around it. "
    "A VPN that has none of these is unsupported.",
    source="the device page, IPsec security & speed (hourly rekeys); RFC 7296 §2.8; swanctl(8) --rekey; openvpn(8) "
    "--reneg-sec; ssh_config(5) RekeyLimit; WireGuard's whitepaper §6.1",
    metrics=("rekey_loss", "rekey_rtt"),
    traffic=(measuring("rekey"), measuring("rekey", ike=IKE)),
    vary_traffic={
        "rekey": ("esp", "ike", "clock", "protocol"),
        "ike": ("aes256-sha384-ecp384", "aes256gcm16-prfsha384-x25519", IKE),
    },
    in_full=("rekey",),
    wanted=is_wanted,
)
