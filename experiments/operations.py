"""What a VPN asks of its operator, counted on paper: the OSLV paper's Tables 1, 2, 3 and 5 judge it by reading."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="operations",
    question="How much must an operator write, type, keep secret and distribute, for two sites and for many?",
    method="vpneval runs the plugin against nodes that only write commands down. It counts files, lines, "
    "commands and secrets of a tunnel between two sites, as its makers advise; the ciphers that "
    "configuration alone can choose; the routes that are set by hand; and what changes when the N-th site "
    "joins a full mesh. It judges nothing and starts nothing.",
    source='OSLV paper, "Supported Features/Functionality" and "Operational Concerns", Tables 1 to 3 and 5; recipe(1)',
    metrics=(
        *("setup_files", "setup_lines", "setup_commands", "setup_secrets", "manual_routes", "cipher_choice"),
        *("scaling_effort", "scaling_lines"),
    ),
    traffic=(measuring("operations"),),
    base="recommended",
)
