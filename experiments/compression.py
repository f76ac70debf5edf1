"""The thesis' third sweep: compression off and on, with payloads that can and cannot be compressed."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="compression",
    question="When is compression in the tunnel worth it?",
    method="vpneval measures one TCP stream at AES-128-CBC, with compression off and on. There are three "
    "payloads: zeros (the best case), random bytes (as data that are compressed already) and a text that "
    "deflate shrinks to a quarter.",
    source="thesis §3.5.1, parameter 3; figures 20 and 21",
    metrics=("tcp_throughput", "cpu_per_gigabyte"),
    traffic=(measuring("tcp"),),
    vary={"compression": ("off", "on")},
    vary_traffic={"payload": ("random", "zeros", "text")},
)
