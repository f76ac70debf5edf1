"""Workers as jobs of SLURM: docs/farm.md."""

from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    cores=2,
    processes=1,
    memory="8GB",
    walltime="12:00:00",
    job_extra_directives=["--exclusive"],
    worker_extra_args=["--resources", "lab=1"],
    protocol="tls",
    shared_temp_directory="/home/me/.dask",
)
cluster.scale(jobs=10)
print(cluster.scheduler_address)  # for vpneval run … --farm; keep this program running
input()
