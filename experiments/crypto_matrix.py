"""Every encryption × integrity × key length of IPsec that this kernel and this strongSwan offer, and packet lengths."""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring
from runner.design.profile import Profile
from runner.papers.claims import IPSEC
from runner.papers.judges.crypto_matrix import CBC, CHACHA, CPUS, GCM, RATE, SEPARATE, SHORTEST
from runner.vpn.plugin import Vpn
from vpns._esp import CIPHERS, INTEGRITIES  # noqa: PLC2701  (the underscore says: no plugin)

STAR = (CBC, "aes-256-cbc", *SEPARATE, "null", "aes-128-ctr", GCM, "aes-256-gcm", "aes-128-ccm", "aes-128-gmac", CHACHA)
SMALLEST = ((CBC, "hmac-sha256"), (GCM, "aead"), ("aes-128-gmac", "aead"))
SHORT = (SHORTEST, "64")
LENGTHS = (SHORTEST, "128", "256", "512", "1024", "1400", "1500")
DRIVEN = (*SMALLEST[:2], (CHACHA, "aead"))  # measured with each driver of the cipher


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """All of it takes hours. The quick profile measures a star: a cipher with every integrity, the others with one."""
    cipher, integrity, length = params["cipher"], params["integrity"], params["packet_bytes"]
    if "gw2_cpu" in params:
        return "driver" not in params and (cipher, integrity, length) == ("aes-256-cbc", "hmac-md5", SHORTEST)
    if "driver" in params:
        short = cipher == GCM and length in SHORT  # the kernel against userspace
        return (cipher, integrity) in DRIVEN and (profile.name == "thesis" or length == "1400" or short)
    if profile.name == "smallest":
        return length in (*SHORT, "1500") and (cipher == "none" or (cipher, integrity) in SMALLEST)
    centre = cipher in (*STAR, "none") and integrity in ("hmac-sha256", "aead", "none")
    few = cipher == "none" or (cipher, integrity) in DRIVEN if length == "1500" else centre or cipher == CBC
    return profile.name == "thesis" or (few and length in (*SHORT, "1400", "1500"))


EXPERIMENT = Experiment(
    name="crypto_matrix",
    question="Which combination of encryption and integrity lets IPsec forward the most packets, at which length?",
    method="vpneval tries every combination that strongSwan and the kernel accept; it asks both. UDP packets of "
    "one length go both ways at once. A short search finds the highest rate with at most 1 % loss. An "
    "overload of 1 Gbit/s each way shows which share is forwarded. Three ciphers are measured with and "
    "without the CPU's crypto instructions, one with a second gateway that gets 15 % or 5 % of a CPU.",
    source="the router paper §VI, figures 6 to 11; RFC 8221 §5",
    metrics=(RATE, "forwarded_share", "wan_packets_per_packet"),
    traffic=(
        measuring("duplex"),
        measuring("duplex", driver="generic"),
        *(measuring("duplex", gw2_cpu=cpu) for cpu in CPUS),
    ),
    vary={"cipher": tuple(CIPHERS), "integrity": tuple(INTEGRITIES)},
    vary_traffic={"packet_bytes": LENGTHS, "driver": ALL},
    only=("none", *IPSEC),
    keep=("cipher", "integrity", "packet_bytes"),
    wanted=is_wanted,
)
