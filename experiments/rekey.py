"""New keys under load: what a rekey costs the traffic that is going on."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn

IKE = "aes128-sha256-modp4096"  # a group that takes the CPU long


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
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
    question="What does a rekey cost the traffic of the moment, in throughput and in waiting?",
    method="A TCP stream fills the tunnel while keys are renewed. On command (IPsec), three times: those of the data "
    "(ESP), or of the control channel (IKE), whose proposals are separate. By the VPN's clock, set to 6 s (OpenVPN, "
    "SSH, tinc), twice. By the protocol's clock of 120 s (WireGuard), once. The second before is compared with the "
    "one after, or around. Who has none of these is unsupported.",
    source="the device page, IPsec security & speed (hourly rekeys); RFC 7296 §2.8; swanctl(8) --rekey; openvpn(8) "
    "--reneg-sec; ssh_config(5) RekeyLimit; WireGuard's whitepaper §6.1",
    metrics=("rekey_loss", "rekey_rtt"),
    traffic=(measuring("rekey"), measuring("rekey", ike=IKE)),
    vary_traffic={
        "rekey": ("esp", "ike", "clock", "protocol"),
        "ike": ("aes256-sha384-ecp384", "aes256gcm16-prfsha384-x25519", IKE),
    },
    wanted=wanted,
)
