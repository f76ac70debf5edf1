"""Security by active probes on the WAN, each with its positive control; the OSLV paper's Table 4 judges by reading."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="security",
    question="What can an attacker on the WAN read, change, repeat, forge or guess, and what leaves unencrypted "
    "when the tunnel fails?",
    method="Each VPN is set up as its makers advise and attacked from a place between the gateways: vpneval "
    "looks for markers in the clear, flips bits, repeats packets, forges packets, sends packets from "
    "another address, connects a peer with other keys, cuts off or kills the tunnel, and reads lengths on "
    "the WAN. 1 means that the VPN withstood, 0 that it did not. If the probe's own control failed, there "
    "is no value. The report also shows what the plugin declares, in points; a failed probe outranks a "
    "declaration. With compression, plaintext and lengths are probed again.",
    source='OSLV paper, "Security" and Table 4; docs/security.md; RFC 4303 §3.4.3 (replay), RFC 3552 §3 (threats)',
    metrics=(
        *("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication"),
        *("fail_closed", "diversion_resistance", "length_hiding", "content_hiding", "declared_strength"),
    ),
    traffic=(measuring("security"),),
    base="recommended",
    vary={"compression": ("off", "on")},
)
