"""What the ClusterIP paper found by HTTP, and its judges: downloads and CPU times, one over another, and handovers in
seconds, which a timer sets.

The paper's system is CLUSTERIP with the kernel's ESP: it decides. Keepalived with strongSwan's ha plugin, and userspace
ESP, are beside it.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median

from runner.data.asked import AskedRun
from runner.papers.claims import IPSEC, LESS, MORE, all_of, close, compare, judge_beside, single, time_within
from runner.papers.findings import Blocks, Data, Finding, Judgement, NotMeasured
from runner.papers.published import paper
from runner.papers.scales import Basis
from runner.papers.shares import ALWAYS, recovery_counts, share_of

STATED = paper("clusterip")
GB, SERVICE, CROSSED = "1000000000", "50000000", "500000000"  # the paper's first, second and third test
MODES = ("clusterip", "ha_sync")  # the paper's own first
AES = {"cipher": "aes-128-cbc", "integrity": "hmac-sha1"}
CPUS = ("1", "2", "3", "4")
FIFTH = 1.2  # a time is met within a fifth
TICK_S, ENOUGH_TICKS = 0.01, 20  # a time of fewer ticks is mostly rounding
ACTIVE, PASSIVE = "ha_gateway_cpu_s", "ha_passive_cpu_s"  # gateways
NO_MODES = "User Mode Linux does not tell the kernel's time from that of programs; --kernel qemu:bookworm does"
PEER_NOTICES_S = 10.0  # strongSwan's peer asks for a gateway that is silent (dpd_delay), and tries again after that
InMode = Callable[[str, str, str, Data], Judgement]  # of a VPN, a size in bytes, and a mode of redundancy


def cell(data: Data, metric: str, vpn: str, size: str, redundancy: str, **levels: str) -> dict[int, float]:
    """Block -> value at one CPU, unless asked otherwise."""
    asked = {"download_bytes": size, "redundancy": redundancy, "download_limit": "off", "gateway_failure": "none"}
    return data.blocks(metric, vpn, **{**AES, "cpus": "1", **asked, **levels})


def size_of(data: Data, size: str) -> str:
    """The paper's size where it was measured, else the one that stands for it."""
    sizes = data.levels("download_bytes")
    if sizes:
        return size if size in sizes else sizes[0]
    raise NotMeasured("no download was measured in this run")


def by_mode(judge: InMode, size: str, modes: tuple[str, ...] = MODES) -> Callable[[Data], Judgement]:
    """``judge`` of the paper's mode with the kernel's ESP, with the other modes and userspace ESP beside it."""

    def judge_modes(data: Data) -> Judgement:
        stands = size_of(data, size)
        cells = {f"{vpn} with {mode}": partial(judge, vpn, stands, mode, data) for vpn, mode in product(IPSEC, modes)}
        (_, papers), *others = cells.items()
        judgement = judge_beside(papers, dict(others))
        if stands == size or (judgement.value is None and not judgement.beside):
            return judgement
        smaller = f"{int(stands) / 1e6:.0f} MB for the paper's {int(size) / 1e6:.0f} MB"
        return judgement.model_copy(update={"note": "; ".join(filter(None, (judgement.note, smaller)))})

    return judge_modes


def of_client(metric: str, data: Data, vpn: str, size: str, mode: str, **levels: str) -> dict[int, float]:
    """Block -> the client's CPU time in one mode. Raises NotMeasured, in User Mode Linux with the reason."""
    try:
        return cell(data, metric, vpn, size, mode, **levels)
    except NotMeasured as missing:
        raise NotMeasured(NO_MODES if data.run.lab.get("guest") == "uml" else str(missing)) from missing


def system_s(data: Data, vpn: str, size: str, mode: str, **levels: str) -> dict[int, float]:
    """Block -> system time of the client's processes, as the command `time` around wget has it in the paper. Raises
    NotMeasured where a kernel that counts it by its clock's ticks saw too few of them."""
    values = of_client("ha_client_system_s", data, vpn, size, mode, **levels)
    if (spent := median(values.values())) < ENOUGH_TICKS * TICK_S:
        shortfall = f"{spent:.2g} s is less than {ENOUGH_TICKS} ticks of a kernel's clock (100 a second)"
        raise NotMeasured(f"{vpn}: the client's system time of {shortfall}; a longer download has more: download_bytes")
    return values


def differs_by(a: Blocks, b: Blocks, percent: float) -> Judgement:
    """``a`` over ``b`` differs from 1 by the paper's ``percent``, within a fifth of it: 25 % is 20.8 to 30 %."""
    low, high = sorted(1 + percent / 100 * by for by in (1 / FIFTH, FIFTH))
    return compare(a, b, (low, high), 1 + percent / 100)


def longer_with(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The time of a download with the plugin ha over that without: 1.25 in the paper."""
    ours, theirs = (cell(data, "ha_download_s", vpn, size, redundancy) for redundancy in (mode, "off"))
    return differs_by(ours, theirs, STATED["ha.elapsed"]).with_systems(vpn)


def dearer(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The client's system time with the plugin ha over that without: 1.35 in the paper."""
    ours, theirs = (system_s(data, vpn, size, redundancy) for redundancy in (mode, "off"))
    return differs_by(ours, theirs, STATED["ha.system"]).with_systems(vpn)


def of_that_size(judge: Callable[[Data], Judgement], size: str) -> Callable[[Data], Judgement]:
    """``judge`` of the paper's own size: a smaller download says nothing of what its sentence names."""

    def judge_size(data: Data) -> Judgement:
        if size in data.levels("download_bytes"):
            return judge(data)
        raise NotMeasured(f"the sentence is about {int(size) / 1e6:.0f} MB, and none were downloaded in this run")

    return judge_size


def handover(limit: str, name: str, vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The third test: seconds between the gateways' packets, within a fifth of the paper's ends ``name``."""
    low_s, high_s = STATED.ends(name)
    values = cell(data, "handover_ms", vpn, size, mode, download_limit=limit, gateway_failure="interface")
    seconds = {block: value / 1000 for block, value in values.items()}
    return time_within(seconds, (low_s / FIFTH, high_s * FIFTH), (low_s, high_s)).with_systems(vpn)


def longer(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """How much longer (s) a download takes in which a gateway fails: 3 to 4 s in the paper, here within a fifth."""
    low_s, high_s = STATED.ends("download.failover")
    failed = cell(data, "failover_download_s", vpn, size, mode, gateway_failure="interface")
    whole = cell(data, "ha_download_s", vpn, size, mode)
    more_s = {block: failed[block] - whole[block] for block in failed.keys() & whole.keys()}
    if not more_s:
        raise NotMeasured("downloads with and without a failure were measured in different repetitions")
    return time_within(more_s, (low_s / FIFTH, high_s * FIFTH), (low_s, high_s)).with_systems(vpn)


def longer_by_cpus(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The same at each number of CPUs that was measured: 3.0, 1.7, 3.2 and 3.1 s in the paper, each within a fifth."""

    def judge_with_cpus(cpus: str) -> Judgement:
        failed = cell(data, "failover_download_s", vpn, size, mode, gateway_failure="interface", cpus=cpus)
        whole = cell(data, "ha_download_s", vpn, size, mode, cpus=cpus)
        stated = STATED[f"download.difference.{cpus}cpu"]
        more_s = {block: failed[block] - whole[block] for block in failed.keys() & whole.keys()}
        if not more_s:
            raise NotMeasured("downloads with and without a failure were measured in different repetitions")
        judgement = time_within(more_s, (stated / FIFTH, stated * FIFTH))
        return judgement.model_copy(update={"published": stated}).with_systems(vpn)

    return all_of({f"{cpus} CPU": partial(judge_with_cpus, cpus) for cpus in CPUS})


def session_continues(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """A download goes on to its end through the other gateway, and sooner than its peer can have found the first one
    dead: no new session was negotiated, the old one went on."""
    levels = {**AES, "redundancy": mode, "download_bytes": size, "gateway_failure": "interface"}
    ended, failures = recovery_counts(data.matching(vpn, levels), "failover_download_s")
    handovers = [
        (trial.repetition, sample / 1000)
        for trial in data.matching(vpn, levels)
        for measurement in trial.measurements
        for sample in measurement.samples
        if measurement.metric == "handover_ms" and trial.status == "ok"
    ]
    moved = {block: max(s for repetition, s in handovers if repetition == block) for block, _ in handovers}
    if not failures or not moved:
        raise NotMeasured(f"{vpn} has no download across a failure with {mode}")
    parts = {
        "downloads that end": partial(share_of, ended, failures, ALWAYS),
        "handover": partial(time_within, moved, (0.0, PEER_NOTICES_S)),
    }
    return all_of(parts).with_systems(vpn)


def usage(spent_s: Blocks, data: Data, vpn: str, size: str, mode: str, **levels: str) -> dict[int, float]:
    """Block -> a gateway's CPU usage during the download, as top(1) has it: 1 is one CPU."""
    took_s = cell(data, "ha_download_s", vpn, size, mode, **levels)
    return {block: spent_s[block] / took_s[block] for block in spent_s.keys() & took_s.keys()}


def gateway_usage(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The active gateway's CPU usage: 3 to 8 % with AES-128 and 2.5 to 5 % with NULL, within a fifth of the ends."""

    def with_cipher(cipher: str, name: str) -> Judgement:
        low, high = (share / 100 for share in STATED.ends(name))
        used = usage(cell(data, ACTIVE, vpn, size, mode, cipher=cipher), data, vpn, size, mode, cipher=cipher)
        judgement = single(used, (low / FIFTH, high * FIFTH)).with_systems(vpn)
        return judgement.model_copy(update={"published_range": (low, high)})

    return all_of(
        {
            "AES-128": partial(with_cipher, "aes-128-cbc", "ha.cpu.aes"),
            "NULL": partial(with_cipher, "null", "ha.cpu.null"),
        }
    )


def active_over_passive(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The passive gateway's CPU time over the active one's, which takes more of a CPU. How many points of a CPU more (5
    to 8 in the paper) depends on the CPU and on the download's rate, of which the text states neither: they are noted,
    and not judged."""
    active, passive = (cell(data, metric, vpn, size, mode) for metric in (ACTIVE, PASSIVE))
    judgement = compare(passive, active, LESS).with_systems(vpn)
    more = {block: active[block] - passive[block] for block in active.keys() & passive.keys()}
    points = 100 * median(usage(more, data, vpn, size, mode).values())
    note = f"the active one's usage was {points:.3g} points of a CPU higher, in the paper 5 to 8"
    return judgement.model_copy(update={"note": note})


def worst(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The client's system time at two CPUs over that at each other number, with the plugin ha. The paper had one to
    four."""
    measured = data.levels("cpus", vpn)
    if missing := [n for n in CPUS if n not in measured]:
        raise NotMeasured(f"that two are the worst of 1 to 4 CPUs needs all four; not measured: {', '.join(missing)}")
    of = {n: system_s(data, vpn, size, mode, cpus=n) for n in CPUS}
    return all_of({f"2 CPUs over {n}": partial(compare, of["2"], of[n], MORE) for n in CPUS if n != "2"}).with_systems(
        vpn
    )


def null(stated: str, vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The first test: elapsed time with AES-128 over that with NULL encryption, longer by the percentage ``stated``."""
    a, b = (cell(data, "ha_download_s", vpn, size, mode, cipher=cipher) for cipher in ("aes-128-cbc", "null"))
    return differs_by(a, b, STATED[stated]).with_systems(vpn)


def null_cpu(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """The gateway's CPU time for the same file with NULL over that with AES-128: 30 % less in the paper."""
    bare, aes = (cell(data, ACTIVE, vpn, size, mode, cipher=cipher) for cipher in ("null", "aes-128-cbc"))
    return differs_by(bare, aes, -STATED["null.cpu"]).with_systems(vpn)


def same_user_time(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """User time of the client, as the command `time` around wget has it in the paper: with the plugin ha over without,
    and with AES-128 over NULL, within 10 % of 1."""
    aes, off, bare = (
        of_client("ha_client_user_s", data, vpn, size, redundancy, cipher=cipher)
        for redundancy, cipher in ((mode, "aes-128-cbc"), ("off", "aes-128-cbc"), (mode, "null"))
    )
    pairs = {"with ha over without": (aes, off), "AES-128 over NULL": (aes, bare)}
    return all_of({name: partial(compare, a, b, close(0.1)) for name, (a, b) in pairs.items()}).with_systems(vpn)


def additional(vpn: str, size: str, mode: str, data: Data) -> Judgement:
    """An "additional load … among the cluster members": the CPU time of both gateways with the plugin ha over that of
    the one gateway without. Two machines are more than one; so the active one's alone is noted."""
    active, passive = (cell(data, metric, vpn, size, mode) for metric in (ACTIVE, PASSIVE))
    both = {block: active[block] + passive[block] for block in active.keys() & passive.keys()}
    without = cell(data, ACTIVE, vpn, size, "off")
    alone = compare(active, without, MORE).number
    return compare(both, without, MORE).with_systems(vpn).model_copy(update={"note": f"the active one alone {alone}"})


CLUSTERIP = MODES[:1]  # keepalived notices a failure by timers of its own
FIRST, SECOND, THIRD, LASTS = "§VI-A.1", "§VI-A.2", "§VI-A.3", "§VII; third test"
# How much longer a download takes is no size of the VPN's where one CPU runs the client, the server and all gateways.
BASES: dict[str, Basis] = {THIRD: "timer", LASTS: "timer", "ha-cpu": "share"}
BASES |= dict.fromkeys(("elapsed", "elapsed-500", "null", "null-ha"), "time")
_NO_MACHINES = (
    "how much longer it takes stands only where hosts and gateways are machines of their own, and vpneval puts two "
    "gateways behind one address only in namespaces of one machine"
)
_WHOLE = AskedRun(experiments="ha_http", kernel="uml", vpns="ipsec", profile="thesis")
_LONG, _MODES, _BOTH_CIPHERS = (
    AskedRun(
        experiments="ha_http",
        kernel=kernel,
        vpns="ipsec",
        levels="redundancy=off,redundancy=clusterip,integrity=hmac-sha1,cpus=1,gateway_failure=none,"
        f"download_limit=off,{levels}",
        repetitions=6,
    )
    for kernel, levels in (
        ("uml", "cipher=aes-128-cbc,download_bytes=500000000"),
        ("qemu:bookworm", "download_bytes=200000000"),
        ("uml", "download_bytes=200000000"),
    )
)
_ELAPSED = by_mode(longer_with, SERVICE), "a download takes {} times as long with the ha plugin as without"
_NULL = "a download with AES-128 takes {} times as long as with NULL"
_LONGER = "a download with a failure takes {} longer than one without"


def _finding(
    name: str, where: str, claim: str, judge: Callable[[Data], Judgement], counts: str, run: AskedRun = _WHOLE
) -> Finding:
    """A finding with the basis of its name or of its section; one of a waiting time is decided by no run."""
    basis = BASES.get(name) or BASES.get(where, "ratio")
    no_run = _NO_MACHINES if basis == "time" else ""
    parts = CONTINUED if name == "continued" else {}
    return Finding(
        name, "clusterip", where, claim, judge, basis, counts=counts, counts_of=parts, run=run, no_run=no_run
    )


CONTINUED = {
    "downloads that end": "a share of {} of the downloads goes on to its end",
    "handover": "the longest handover takes {}",
}
FINDINGS = (
    _finding("elapsed", SECOND, "a download takes 25 % longer with the ha plugin", *_ELAPSED),
    _finding(
        *("elapsed-500", "§VII", "a download of 500 MB takes 25 % longer with the ha plugin"),
        of_that_size(by_mode(longer_with, CROSSED), CROSSED),
        "a download of 500 MB takes {} times as long with the ha plugin as without",
    ),
    _finding(
        *("system", SECOND, "a download takes 35 % more system time with the ha plugin", by_mode(dearer, SERVICE)),
        *("a download takes {} times the client's system time with the ha plugin", _MODES),
    ),
    _finding(
        *("handover", THIRD, "the handover takes 1.63 to 1.66 s"),
        *(by_mode(partial(handover, "off", "handover"), CROSSED, CLUSTERIP), "the handover takes {}"),
    ),
    _finding(
        *("handover-limited", THIRD, "at 2 MB/s the handover takes 1.9 to 2.3 s"),
        *(by_mode(partial(handover, "2000000", "handover.limited"), CROSSED, CLUSTERIP), "the handover takes {}"),
    ),
    _finding(
        *("longer", THIRD, "a failure makes a download 3 to 4 s longer"),
        *(by_mode(longer, CROSSED, CLUSTERIP), _LONGER),
    ),
    _finding(
        *("longer-cpus", THIRD, "a failure makes it 3.0, 1.7, 3.2 and 3.1 s longer at one to four CPUs"),
        *(by_mode(longer_by_cpus, CROSSED, CLUSTERIP), _LONGER),
    ),
    _finding(
        *(
            "continued",
            LASTS,
            "a session goes on through the other gateway",
            by_mode(session_continues, CROSSED, CLUSTERIP),
        ),
        "a share of {} of the downloads goes on to its end",
    ),
    _finding(
        *("additional", "§VII", "the ha plugin is an additional load", by_mode(additional, GB)),
        *("both gateways take {} times the CPU time of the one gateway without the ha plugin", _LONG),
    ),
    _finding(
        *("two-cpus", FIRST, "two CPUs are the worst number of them", by_mode(worst, GB)),
        "the client's system time is {} times the other's",
    ),
    _finding(
        *("null", FIRST, "AES-128 takes 11 % longer than NULL without ha"),
        *(by_mode(partial(null, "aes.time"), GB, ("off",)), _NULL),
    ),
    _finding(
        *("null-ha", FIRST, "AES-128 takes 30 % longer than NULL with ha"),
        *(by_mode(partial(null, "ha.aes.time"), GB), f"{_NULL}, both with the ha plugin"),
    ),
    _finding(
        *("null-cpu", FIRST, "NULL takes 30 % less of the gateway's CPU than AES-128"),
        by_mode(null_cpu, GB, ("off",)),
        *("the gateway takes with NULL {} times the CPU time that it takes with AES-128", _BOTH_CIPHERS),
    ),
    _finding(
        *("user-time", FIRST, "the user time is always the same", by_mode(same_user_time, GB)),
        *("the client's user time is {} times the other's", _MODES),
    ),
    _finding(
        *("ha-cpu", FIRST, "with ha a gateway's CPU is at 3 to 8 % (AES-128), 2.5 to 5 % (NULL)"),
        *(by_mode(gateway_usage, GB), "the active gateway uses a share of {} of a CPU", _BOTH_CIPHERS),
    ),
    _finding(
        *("active-passive", "§VII", "the active gateway takes more CPU than the passive one"),
        by_mode(active_over_passive, GB, CLUSTERIP),
        *("the passive gateway takes {} times the CPU time of the active one", _LONG),
    ),
)
