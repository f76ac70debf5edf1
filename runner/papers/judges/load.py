"""The thesis' open question of many flows, and its judges: rates of many streams or clients, one over another."""

from runner.data.trials import Trial
from runner.papers.claims import At, close, on_ipsec, ratio_of
from runner.papers.conditions import by_one_driver
from runner.papers.findings import Data, Finding, Judgement, NotMeasured
from runner.papers.published import paper

STATED = paper("thesis")
FEW, MANY = "1", "64"


def at(vpn: str, streams: str) -> At:
    """A VPN's cell of so many parallel TCP streams, at AES-128-CBC."""
    return At(vpn, {"measure": "flows", "cipher": "aes-128-cbc", "streams": streams})


def from_clients(vpn: str, clients: str) -> At:
    """A VPN's cell of so many clients, a download each, at AES-128-CBC."""
    return At(vpn, {"measure": "clients", "cipher": "aes-128-cbc", "clients": clients})


def loaded(data: Data, *cells: At) -> None:
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
    return max(map(int, idle), default=0)


def with_flows(name: str, streams: str, claim: str, question: bool) -> Finding:
    """SSH port forwarding over IPsec, the throughput of so many streams: within 10 % of 1."""

    def against(vpn: str, data: Data) -> Judgement:
        published = STATED["tcp.ssh_forward"] / STATED["tcp.ipsec"] if (vpn, streams) == ("ipsec", FEW) else None
        ours, theirs = at("ssh_forward", streams), at(vpn, streams)
        loaded(data, ours, theirs)
        return ratio_of("flows_throughput", ours, theirs, close(0.1), published)(data)

    return Finding(name, "thesis", "§6.2", claim, by_one_driver(on_ipsec(against)), question=question)


def clients(vpn: str, data: Data) -> Judgement:
    """The same with the downloads of MANY clients."""
    ours, theirs = from_clients("ssh_forward", MANY), from_clients(vpn, MANY)
    loaded(data, ours, theirs)
    return ratio_of("clients_throughput", ours, theirs, close(0.1))(data)


FINDINGS = (
    with_flows("keeps-up-1", FEW, "SSH port forwarding is as fast as IPsec with one flow", question=False),
    with_flows("keeps-up-64", MANY, "open question: is it as fast with many flows? Here: 64", question=True),
    Finding(
        *("keeps-up-clients", "thesis", "§6.2"),
        "open question: is it as fast with many clients? Here: 64, each with its own address",
        by_one_driver(on_ipsec(clients)),
        question=True,
    ),
)
RUNS = {"": "load --kernel uml --vpn ipsec,ssh_forward --set driver=generic --duration 10"}
COUNTS = {
    "keeps-up-1": "SSH port forwarding carries {} times the throughput of IPsec, with one flow",
    "keeps-up-64": "SSH port forwarding carries {} times the throughput of IPsec, with 64 flows",
    "keeps-up-clients": "SSH port forwarding carries {} times the throughput of IPsec, with 64 clients",
}
