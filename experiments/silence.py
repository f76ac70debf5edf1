"""What a NAT that forgets does to a tunnel that nobody uses."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="silence",
    question="Behind a NAT, after how long a silence is a site still reachable from outside?",
    method="The first gateway is behind a NAT, which forgets what is silent for 30, 60 and 180 s. All VPNs are silent "
    "at the same time, so one repetition takes five minutes, however many they are: --reps 1 --rounds 4. Then the far "
    "host sends an echo. A socket without a keepalive is the control in each trial: the NAT must "
    "have forgotten it. See docs/paths.md.",
    source="RFC 4787 REQ-5 (a NAT's timer for UDP), RFC 3948 §4 (keepalives)",
    metrics=("nat_silence",),
    traffic=(measuring("silence"),),
    base="recommended",
)
