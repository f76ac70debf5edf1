"""The thesis' second sweep: ciphers in CBC mode, and those that people use today."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="cipher",
    question="How much does the cipher matter?",
    method="vpneval measures one TCP stream with random payload, without compression, through one tunnel for "
    "each cipher. Integrity is HMAC-SHA-256, or the cipher's own tag if it is an AEAD.",
    source="thesis §3.5.1, parameter 2; figure 19",
    metrics=("tcp_throughput", "cpu_per_gigabyte"),
    traffic=(measuring("tcp"),),
    vary={
        "cipher": (
            "blowfish-128-cbc",
            "aes-128-cbc",
            "aes-192-cbc",
            "aes-256-cbc",
            "3des-cbc",
            "aes-128-gcm",
            "aes-256-gcm",
            "chacha20-poly1305",
        )
    },
)
