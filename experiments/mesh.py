"""Full meshes of 2 to 20 gateways, for real: what the OSLV paper's scalability leaves out, time, memory and CPU."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="mesh",
    question="How do time, memory and CPU grow with the number of sites, until this machine is full?",
    method="Full meshes of 2, 3, 5, 10 and 20 gateways in namespaces, as each VPN's makers advise. Time from the first "
    "command until each pair of gateways has talked through its tunnel; memory and CPU of the daemons then. "
    "Values are those of ten sites. What does not fit the machine is predicted by a parabola through what did, and "
    "said to be predicted.",
    source='OSLV paper, "Scalability" (memory and processing power, neglected there); proc_pid_smaps(5)',
    metrics=("mesh_time", "mesh_memory", "mesh_cpu"),
    traffic=(measuring("mesh"),),
    base="recommended",
)
