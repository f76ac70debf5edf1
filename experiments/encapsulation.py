"""Encapsulation with and without encryption: the same tunnel with the NULL cipher."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="encapsulation",
    question="How much of a VPN's cost is encapsulation, and how much is encryption?",
    method="vpneval measures one TCP stream with random payload, and the overhead of packets of 512 bytes. The "
    "tunnels differ only in the cipher: NULL (integrity only), AES-128-CBC and AES-128-GCM. Plain IP and "
    "IPIP are measured with them.",
    source="RFC 2410 §1 (NULL encryption), openvpn(8) --data-ciphers; thesis §4.1 (plain IP and IPIP)",
    metrics=("tcp_throughput", "cpu_per_gigabyte", "wire_bytes_per_payload_byte", "overhead_bytes"),
    traffic=(measuring("tcp"), measuring("overhead", packet_bytes="512")),
    vary={"cipher": ("null", "aes-128-cbc", "aes-128-gcm")},
)
