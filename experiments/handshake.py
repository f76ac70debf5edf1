"""What a post-quantum key exchange costs a handshake, beside a classical one of the same daemons."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.instruments.traffic.handshake import PATHS
from runner.vpn.plugin import Vpn

IKE = ("aes256gcm16-prfsha384-x25519", "x25519-mlkem768", "mlkem768", "aes256-sha384-ecp384", "ecp384-mlkem1024")
KEY_EXCHANGES = (
    *("X25519", "X25519MLKEM768"),
    *("curve25519-sha256", "mlkem768x25519-sha256", "sntrup761x25519-sha512"),
)


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """Each VPN's own key exchanges; where it offers no choice, the one that it has."""
    if "ike" in params:
        return params["ike"] in vpn.offers.ike
    if "key_exchange" in params:
        return params["key_exchange"] in vpn.offers.key_exchanges
    return not (vpn.offers.ike or vpn.offers.key_exchanges)


EXPERIMENT = Experiment(
    name="handshake",
    question="What does a post-quantum key exchange cost a handshake, and does it still pass a narrow or lossy path?",
    method="vpneval brings the tunnel up anew in a fresh lab and counts what both gateways send until both say that it "
    "is up. A router is on the way: as wide as Ethernet; with an MTU of 1280 bytes; the same, while the gateways drop "
    "IP fragments; or it loses 1 % or 5 % of the packets (five handshakes each). Pings without a tunnel show in the "
    "same trial that the path does so, and that the capture sees each packet. Classical key exchanges stand beside the "
    "post-quantum ones of the same daemons. What was negotiated is read from the daemons.",
    source="RFC 9370 and RFC 9242 (several key exchanges in IKEv2), draft-ietf-ipsecme-ikev2-mlkem, "
    "draft-ietf-tls-ecdhe-mlkem, RFC 10042 (SSH), RFC 7383 (IKE fragmentation)",
    metrics=(*("handshake_passes", "handshake_bytes", "handshake_packets", "handshake_fragments", "handshake_time"),),
    traffic=(
        measuring("handshake"),
        measuring("handshake", ike=IKE[0]),
        measuring("handshake", key_exchange=KEY_EXCHANGES[0]),
    ),
    vary_traffic={"path": tuple(PATHS), "ike": IKE, "key_exchange": KEY_EXCHANGES},
    base="recommended",
    wanted=is_wanted,
)
