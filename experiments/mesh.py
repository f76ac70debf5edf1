"""Full meshes of 2 to 20 gateways, for real: what the OSLV paper's scalability leaves out, time, memory and CPU."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="mesh",
    question="How do time, memory and CPU grow with the number of sites, until this machine is full?",
    method="Full meshes of 2, 3, 5, 10 and 20 gateways in namespaces are set up as each VPN's makers advise. "
    "vpneval measures the time from the first command until every pair of gateways has talked through its "
    "tunnel, and then the daemons' memory and CPU time. The values are those of ten sites. If a size does "
    "not fit this machine, a parabola through the smaller sizes predicts it, and the report says so.",
    source='OSLV paper, "Scalability" (memory and processing power, neglected there); proc_pid_smaps(5)',
    metrics=("mesh_time", "mesh_memory", "mesh_cpu"),
    traffic=(measuring("mesh"),),
    base="recommended",
)
