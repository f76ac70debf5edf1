"""The thesis' open question of many flows, and its judges: rates of many streams or clients, one over another."""

from math import inf

from runner.papers.findings import At, Data, Finding, Judgement, on_ipsec, ratio_of
from runner.papers.published import paper

STATED = paper("thesis")
FEW, MANY = "1", "64"


def at(vpn: str, streams: str) -> At:
    """A VPN's cell of so many parallel TCP streams, at AES-128-CBC."""
    return At(vpn, {"measure": "flows", "cipher": "aes-128-cbc", "streams": streams})


def from_clients(vpn: str, clients: str) -> At:
    """A VPN's cell of so many clients, a download each, at AES-128-CBC."""
    return At(vpn, {"measure": "clients", "cipher": "aes-128-cbc", "clients": clients})


def keeps_up(name: str, streams: str, found: str) -> Finding:
    """The finding that SSH port forwarding has 0.9 of IPsec's throughput or more, with so many streams."""

    def against(vpn: str, data: Data) -> Judgement:
        published = STATED["tcp.ssh_forward"] / STATED["tcp.ipsec"] if (vpn, streams) == ("ipsec", FEW) else None
        return ratio_of("flows_throughput", at("ssh_forward", streams), at(vpn, streams), (0.9, inf), published)(data)

    return Finding(name, "thesis", "§6.2", found, on_ipsec("flows_throughput", against))


def serves_many(found: str) -> Finding:
    """The same with the downloads of MANY clients."""

    def against(vpn: str, data: Data) -> Judgement:
        ours, theirs = from_clients("ssh_forward", MANY), from_clients(vpn, MANY)
        return ratio_of("clients_throughput", ours, theirs, (0.9, inf), None)(data)

    return Finding("keeps-up-clients", "thesis", "§6.2", found, on_ipsec("clients_throughput", against))


FINDINGS = (
    keeps_up("keeps-up-1", FEW, "SSH port forwarding keeps up with IPsec with one flow (1.02 times)"),
    keeps_up("keeps-up-64", MANY, "open question: does it keep up with many? Here: 64 flows"),
    serves_many("open question: does it keep up with many clients? Here: 64, each with its own address"),
)
