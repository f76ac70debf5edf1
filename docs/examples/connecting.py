"""What a new connection costs, alone and beside others."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="connecting",
    question="How long does a program wait for the first answer over a new TCP connection?",
    method="New connections with one exchange of a byte each, one after another and eight at a time; no other traffic.",
    source="RFC 9293 §3.5; an example",
    metrics=("connect_time",),
    traffic=(measuring("connect"),),
    vary_traffic={"at_once": ("1", "8")},
)
