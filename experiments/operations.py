"""What a VPN asks of its operator, counted on paper: the OSLV paper's Tables 1, 2, 3 and 5 judge it by reading."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="operations",
    question="How much is there to write, to type, to keep secret and to carry around, for two sites and for many?",
    method="The plugin itself, run against nodes that only write down: files, lines, commands and secrets of a tunnel "
    "between two sites, as its makers advise; the ciphers that configuration alone gives; the routes set by hand; what "
    "changes when the N-th site joins a full mesh, rendered with it and without. Nothing is judged, nothing runs.",
    source='OSLV paper, "Supported Features/Functionality" and "Operational Concerns", Tables 1 to 3 and 5; recipe(1)',
    metrics=(
        *("setup_files", "setup_lines", "setup_commands", "setup_secrets", "manual_routes", "cipher_choice"),
        *("scaling_effort", "scaling_lines"),
    ),
    traffic=(measuring("operations"),),
    base="recommended",
)
