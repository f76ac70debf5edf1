"""The thesis' open question of many flows, and its judges: rates of many streams or clients, one over another."""

from math import inf

from runner.data.trials import Trial
from runner.papers.claims import At, ratio_of
from runner.papers.findings import Data, Judgement, NotMeasured

MANY = "64"
AS_HIGH = (1 / 1.1, inf)  # "as high as" has no upper bound


def streams_cell(vpn: str, streams: str) -> At:
    """A VPN's cell of so many parallel TCP streams, at AES-128-CBC."""
    return At(vpn, {"measure": "flows", "cipher": "aes-128-cbc", "streams": streams})


def from_clients(vpn: str, clients: str) -> At:
    """A VPN's cell of so many clients, a download each, at AES-128-CBC."""
    return At(vpn, {"measure": "clients", "cipher": "aes-128-cbc", "clients": clients})


def require_load(data: Data, *cells: At) -> None:
    """Raises NotMeasured where more than half of a cell's tests failed, or left more than half of the flows without a
    byte: then they did not load the gateways."""
    for cell in cells:
        trials = [trial for trial in data.matching(cell.vpn, cell.levels) if trial.status in ("ok", "failed")]
        flows = int(cell.levels.get("streams") or cell.levels["clients"])
        idle = [trial for trial in trials if trial.status == "failed" or idle_flows(trial) > flows / 2]
        if 2 * len(idle) > len(trials):
            raise NotMeasured(
                f"{len(idle)} of {len(trials)} tests of {cell.vpn} left most of {flows} flows without a byte: longer "
                "tests need --duration 10"
            )


def idle_flows(trial: Trial) -> int:
    """How many of a test's flows, or clients, carried nothing."""
    idle = [m.detail.get("idle_streams", m.detail.get("idle_clients", 0)) for m in trial.measurements]
    return max((int(number) for number in idle if number), default=0)


def with_flows(vpn: str, data: Data, streams: str) -> Judgement:
    """SSH port forwarding over IPsec, the throughput of so many streams: no more than 10 % below it."""
    ours, theirs = streams_cell("ssh_forward", streams), streams_cell(vpn, streams)
    require_load(data, ours, theirs)
    return ratio_of("flows_throughput", ours, theirs, AS_HIGH)(data)


def clients(vpn: str, data: Data) -> Judgement:
    """The same with the downloads of MANY clients."""
    ours, theirs = from_clients("ssh_forward", MANY), from_clients(vpn, MANY)
    require_load(data, ours, theirs)
    return ratio_of("clients_throughput", ours, theirs, AS_HIGH)(data)
