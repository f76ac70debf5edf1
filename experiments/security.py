"""Security by active probes on the WAN, each with its positive control; the OSLV paper's Table 4 judges by reading."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="security",
    question="What can somebody on the WAN read, change, repeat, forge or guess, and what leaves when the tunnel goes?",
    method="Each VPN as its makers advise, probed from a place between the gateways: markers in the clear, flipped "
    "bits, repeated packets, forged packets, packets from another address, a peer with other keys, a tunnel cut off or "
    "killed, lengths on the WAN. 1 is pass, 0 is fail; where a probe's control did not come out there is no value. "
    "Beside it what the plugin declares, in points; a probe's failure outranks it. With compression, plaintext and "
    "lengths are probed again.",
    source='OSLV paper, "Security" and Table 4; docs/security.md; RFC 4303 §3.4.3 (replay), RFC 3552 §3 (threats)',
    metrics=(
        *("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication"),
        *("fail_closed", "diversion_resistance", "length_hiding", "content_hiding", "declared_strength"),
    ),
    traffic=(measuring("security"),),
    base="recommended",
    vary={"compression": ("off", "on")},
)
