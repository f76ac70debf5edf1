"""Download time of files by HTTP, as a user sees it."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="download",
    question="How long does a file take through the tunnel?",
    method="All VPNs use AES-128-CBC without compression, or the nearest that they have. curl on the near host "
    "fetches a file of random bytes from nginx on the far host, in one new TCP connection. The time "
    "includes TCP's slow start, so the file's size matters.",
    source="the high-availability paper's downloads of 50 MB, 500 MB and 1 GB; curl(1), --write-out time_total",
    metrics=("download_time",),
    traffic=(measuring("download"),),
    vary_traffic={"file_bytes": ("20000000", "50000000", "500000000", "1000000000")},
)
