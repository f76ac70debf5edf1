"""What the ClusterIP paper found by HTTP, and its judges: seconds of downloads, of CPUs and of handovers."""

from functools import partial

from runner.papers.findings import LESS, MORE, Data, Finding, Judgement, NotMeasured, all_of, compare, single

GB, SERVICE, CROSSED = "1000000000", "50000000", "500000000"  # the paper's first, second and third test
MODES = ("clusterip", "ha_sync")  # the paper's own first
AES = {"cipher": "aes-128-cbc", "integrity": "hmac-sha1"}
PERIOD_MS = 2100.0  # the paper's heartbeat_timeout, of which 0 to 1 s have passed when a gateway fails


def cell(data: Data, metric: str, size: str, redundancy: str, **levels: str) -> dict[int, float]:
    """Block -> value at one CPU, unless asked otherwise, of the IPsec that was measured."""
    vpn = next((name for name in data.vpns(metric) if name.startswith("ipsec")), "ipsec")
    asked = {"download_bytes": size, "redundancy": redundancy, "download_limit": "off", "gateway_failure": "none"}
    return data.blocks(metric, vpn, **{**AES, "cpus": "1", **asked, **levels})


def size_of(data: Data, size: str) -> str:
    """The paper's size where it was measured, else the one that stands for it."""
    sizes = data.levels("download_bytes")
    if sizes:
        return size if size in sizes else sizes[0]
    raise NotMeasured("no download was measured in this run")


def mode_of(data: Data) -> str:
    """The paper's CLUSTERIP where it was measured, else the plugin ha beside keepalived."""
    return next((mode for mode in MODES if mode in data.levels("redundancy")), MODES[0])


def dearer(data: Data, metric: str, between: tuple[float, float], published: float) -> Judgement:
    """The second test: with the plugin ha over without."""
    ours, theirs = (cell(data, metric, size_of(data, SERVICE), mode) for mode in (mode_of(data), "off"))
    return compare(ours, theirs, between, published)


def handover(data: Data, limit: str, between: tuple[float, float], published: float) -> Judgement:
    """The third test, of CLUSTERIP: seconds between the gateways' packets, over the 2.1 s that make a death.
    (Keepalived, which the plugin ha runs beside otherwise, notices sooner.)"""
    levels = {"download_limit": limit, "gateway_failure": "interface"}
    values = cell(data, "handover_ms", size_of(data, CROSSED), MODES[0], **levels)
    return single({block: value / PERIOD_MS for block, value in values.items()}, between, published)


def worst(data: Data) -> Judgement:
    """CPU time at two CPUs over that at each other number, with the plugin ha."""
    size, mode, cpus = size_of(data, GB), mode_of(data), data.levels("cpus")
    if "2" not in cpus or len(cpus) < 2:
        raise NotMeasured(f"needs two CPUs and another number of them; measured: {', '.join(cpus) or 'none'}")
    of = {n: cell(data, "ha_system_s", size, mode, cpus=n) for n in cpus}
    return all_of({f"2 CPUs over {n}": partial(compare, of["2"], of[n], MORE) for n in cpus if n != "2"})


def null(data: Data, ha: bool, over: float) -> Judgement:
    """The first test: elapsed time with NULL encryption over that with AES-128."""
    where = size_of(data, GB), mode_of(data) if ha else "off"
    a, b = (cell(data, "ha_download_s", *where, cipher=cipher) for cipher in ("null", "aes-128-cbc"))
    return compare(a, b, LESS, 1 / over)


ELAPSED = partial(dearer, metric="ha_download_s", between=(1.15, 1.35), published=1.25)
SYSTEM = partial(dearer, metric="ha_system_s", between=(1.2, 1.5), published=1.35)
HANDOVER = partial(handover, limit="off", between=(0.5, 1.05), published=1.645 / 2.1)
HANDOVER_LIMITED = partial(handover, limit="2000000", between=(0.85, 1.15), published=1.0)
FINDINGS = tuple(
    Finding(name, "clusterip", where, found, judge)
    for name, where, found, judge in (
        ("elapsed", "§VI-A.2", "a download takes 25 % longer with the ha plugin", ELAPSED),
        ("system", "§VI-A.2", "a download takes 35 % more system time with the ha plugin", SYSTEM),
        ("handover", "§VI-A.3", "the handover takes 1.63 to 1.66 s, of 2.1 s without a heartbeat", HANDOVER),
        ("handover-limited", "§VI-A.3", "at 2 MB/s the handover takes 1.9 to 2.3 s", HANDOVER_LIMITED),
        ("two-cpus", "§VI-A.1", "two CPUs are the worst number of them", worst),
        ("null", "§VI-A.1", "AES-128 takes 11 % longer than NULL without ha", partial(null, ha=False, over=1.11)),
        ("null-ha", "§VI-A.1", "AES-128 takes 30 % longer than NULL with ha", partial(null, ha=True, over=1.3)),
    )
)
