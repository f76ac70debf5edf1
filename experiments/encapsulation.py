"""Encapsulation with and without encryption: the same tunnel with the NULL cipher."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="encapsulation",
    question="How much of a VPN's cost is encapsulation, and how much is encryption?",
    method="One TCP stream with incompressible payload, and the overhead of 512-byte packets, through tunnels that are "
    "the same but for the cipher: NULL (integrity only), AES-128-CBC and AES-128-GCM; beside them plain IP and IPIP.",
    source="RFC 2410 §1 (NULL encryption), openvpn(8) --data-ciphers; thesis §4.1 (plain IP and IPIP)",
    metrics=("tcp_throughput", "cpu_per_gigabyte", "wire_bytes_per_payload_byte", "overhead_bytes"),
    traffic=(measuring("tcp"), measuring("overhead", packet_bytes="512")),
    vary={"cipher": ("null", "aes-128-cbc", "aes-128-gcm")},
)
