"""Packets per second at several packet lengths: what the paper calls packet throughput."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="packet_rate",
    question="How many packets of which length can a VPN carry in a second?",
    method="UDP packets of one length are sent from the near host and counted at the far host's interface, "
    "before any program. A search finds the highest offered rate whose mean loss stays below 1 %. Nothing "
    "is fragmented.",
    source="the paper on the Quagga and strongSwan router, §VI, figure 11 (lengths from 64 bytes on); RFC 2544 §26.1",
    metrics=("packet_rate", "packets_per_cpu_second"),
    traffic=(measuring("packets"),),
    vary_traffic={"packet_bytes": ("64", "128", "256", "512", "1024", "1400")},
)
