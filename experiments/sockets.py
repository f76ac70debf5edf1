"""The thesis' socket buffers: how much of what a VPN carries in UDP a program with a small buffer gets."""

from runner.design.experiment import ALL, Experiment, measuring

EXPERIMENT = Experiment(
    name="sockets",
    question="How much UDP traffic reaches a program whose socket buffer is as small as in the thesis?",
    method="A program sends datagrams to another one, at AES-128-CBC without compression, or the nearest that the VPN "
    "has. A search finds the highest rate with less than 1 % of loss, with buffers of 9 KB (as in the thesis) and of "
    "2 MB at the sender, and of 192 KB (as in the thesis) and 2 MB at the receiver. What the receiver's socket drops "
    "counts as lost, and is told apart from the loss of the VPN. In `transport`, it does not count. TCP is measured "
    "beside it.",
    source="thesis §3.5.1, parameter 1; socket(7) SO_SNDBUF, SO_RCVBUF",
    metrics=("udp_socket_throughput", "tcp_throughput"),
    traffic=(measuring("udp_sockets"), measuring("tcp")),
    vary_traffic={"send_buffer_bytes": ALL, "receive_buffer_bytes": ALL},
)
