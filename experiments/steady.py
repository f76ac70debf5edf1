"""What slices of a quarter of a second do not see: one uncut stretch of datagrams at one rate."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="steady",
    question="Does a VPN carry a rate for half a minute without a break?",
    method="Each VPN is set up as its makers advise. Datagrams at one rate (--set steady_bps=…; 100 Mbit/s) pass for "
    "30 s, over plain IP for 8 s: the longest time in which none came, how late they were, and what was lost, second "
    "by second. `choose` does this at the end with the VPNs that it names, at 0.8 of the line or of what they carry. "
    "Does not see: what happens less often than once in half a minute.",
    source="after RFC 2544 §26.3, RFC 7680 (one-way loss), RFC 3393 (delay variation)",
    metrics=("steady_gap", "steady_late", "steady_worst_second_loss", "steady_loss"),
    traffic=(measuring("steady"),),
    base="recommended",
)
