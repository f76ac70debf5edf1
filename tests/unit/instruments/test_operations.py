"""The counts of a set-up and of a mesh, and the paper's own tables recomputed."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.instruments.operator.counts import foreign_keys, joining, mesh, on_paper, operations
from runner.instruments.operator.mesh import UP_WITHIN_S, Size, no_room, results
from runner.lab.node import PATIENCE, Node
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES
from runner.papers.judges.oslv import OVER_TCP, OVER_UDP
from runner.papers.tables import HEIRS, SIZES, paper_effort, paper_security, printed_tables, tables, value
from runner.vpn.declared import Declared
from runner.vpn.plugin import Offers, Secrets, Vpn
from vpns.softether import SoftEther

# What Table 5 prints at N = 10 and does not follow from its own cells.
WRONG_AT_10 = {"Vpnd": 270, "Htun": 360, "Cipe": 180, "PPTP": 460, "L2tpd": 450}
WRONG_FORMULA = {"Htun", "Cipe", "PPTP", "L2tpd"}


class Counted(Vpn):
    """A plugin whose counts can be told by looking at it: one file a site with a line for each peer, a key each."""

    name = "counted"
    title = "counted"
    dataplane = "userspace"
    transport = "udp"
    offers = Offers({"aes-128-cbc": "a", "aes-128-gcm": "b", "aes-256-cbc": "a"}, {"hmac-sha256": "h"})
    comparable = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
    recommended = comparable

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        made: dict[str, str] = {}
        for site in sites:
            key = ca.run("genkey", site.name).stdout
            made |= {f"{site.name}.key": key, f"{site.name}.pub": f"of {key}"}
        return made

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        lines = [f"cipher {self.offers.ciphers[params['cipher']]}", "", f"key {secrets[f'{me.name}.key']}"]
        return {"/etc/counted": "\n".join(lines + [f"peer {secrets[f'{peer.name}.pub']}" for peer in peers])}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.run("countd")
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "dev", "tun0")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence()


def test_the_counts_of_a_plugin_that_can_be_counted_by_hand() -> None:
    found = {one.metric: one for one in operations(Counted(), Counted.recommended).measurements}
    assert {name: one.value for name, one in found.items()} == {
        "setup_files": 2,
        "setup_lines": 2 * 3,  # the empty line is none
        "setup_commands": 2 * 2 + 2,  # a daemon and a route each, and two keys made
        "setup_secrets": 2,  # the public halves are none
        "manual_routes": 2,
        "cipher_choice": 2,  # two of the three come to the same words
        "scaling_effort": 10 * (10 + 18 + 18),  # every file, a route each way with 9 peers, a key each way
        "scaling_lines": 9 + 2 + 9,
    }
    assert found["cipher_choice"].detail["ciphers"] == ["aes-128-cbc", "aes-128-gcm"]


@pytest.mark.parametrize("count", SIZES)
def test_what_joining_changes(count: int) -> None:
    found = joining(Counted(), Counted.recommended, count)
    old = 0 if count == 2 else count - 1  # the first two sites are set up together
    joins = count - old
    assert found.files == old + joins
    assert found.routes == found.keys == old + joins * (count - 1)
    assert found.effort == count * (found.files + found.routes + found.keys)


def test_a_key_is_carried_unless_it_is_made_there() -> None:
    setup = on_paper(Counted(), Counted.recommended, mesh(3))
    assert foreign_keys(setup.drafts["gw1"], setup.secrets) == {"gw2.pub", "gw3.pub"}


def test_one_key_for_all_is_one_secret_and_is_brought_to_each() -> None:
    class Shared(Counted):
        def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
            key = ca.run("genkey").stdout
            return {f"{site.name}.{end}": key for site in sites for end in ("key", "pub")}

    found = {one.metric: one.value for one in operations(Shared(), Shared.recommended).measurements}
    assert found["setup_secrets"] == 1
    assert joining(Shared(), Shared.recommended, 10).keys == 1, "to the tenth"
    for name in ("n2n", "macsec"):
        vpn = load_vpn(name)
        assert joining(vpn, vpn.recommended, 10).keys == 1


def test_a_hub_stays_where_it_is_when_another_site_joins() -> None:
    class Moved(SoftEther):
        declared = Declared(SoftEther.declared.security, replace(SoftEther.declared.abilities, hub=False))

    found = joining(SoftEther(), SoftEther.recommended, 10)
    assert (found.files, found.routes, found.keys) == (2, 2 * 9, 1), "its own file and password, and the hub's users"
    assert found.effort == 10 * 21
    assert found.lines == 6 + 2
    assert joining(Moved(), SoftEther.recommended, 10).files == 11, "the control: all files name the hub"
    n2n = load_vpn("n2n")
    assert joining(n2n, n2n.recommended, 10).files == 1


def test_the_first_two_sites_are_the_labs() -> None:
    assert mesh(2) == SITES


@pytest.mark.parametrize("name", ["openvpn", "wireguard", "ipsec", "ssh_tun"])
def test_real_plugins_grow_as_a_full_mesh_does(name: str) -> None:
    vpn = load_vpn(name)
    small, large = (joining(vpn, vpn.recommended, size) for size in (5, 10))
    assert large.files > small.files
    assert large.lines > small.lines
    assert large.effort > small.effort


def test_tinc_is_told_of_one_site_however_many_there_are() -> None:
    tinc = load_vpn("tinc")
    small, large = (joining(tinc, tinc.recommended, size) for size in (5, 10))
    assert (large.files, large.routes, large.keys) == (small.files, small.routes, small.keys) == (7 + 2, 0, 2)


def test_certificates_are_carried_once_and_public_keys_to_everybody() -> None:
    openvpn, wireguard = load_vpn("openvpn"), load_vpn("wireguard")
    assert joining(openvpn, openvpn.recommended, 10).keys == 1
    assert joining(wireguard, wireguard.recommended, 10).keys == 2 * 9


def test_levels_that_a_vpn_lacks() -> None:
    with pytest.raises(UsageError, match="wireguard: WireGuard does not compress"):
        operations(load_vpn("wireguard"), {**load_vpn("wireguard").recommended, "compression": "on"})


def test_a_plugin_for_two_sites_only_has_no_mesh() -> None:
    class Pair(Counted):
        def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
            (peer,) = peers
            super().start(node, me, [peer], params)

    found = operations(Pair(), Pair.recommended)
    assert not {"scaling_effort", "scaling_lines"} & {one.metric for one in found.measurements}
    assert "no mesh of more than two" in found.attempt["inconclusive"]["scaling_effort"]["reason"]


def sized(sites: int, up_s: float = 1.0, memory_bytes: int = 10**6) -> Size:
    return Size(sites, up_s, memory_bytes * sites * (sites - 1) // 2, 0.5, 100, 10)


def test_ten_sites_are_the_values_and_twenty_a_prediction() -> None:
    points = [sized(2, 1.0), sized(3, 2.0), sized(5, 4.0), sized(10, 9.0)]
    found = results(points, SIZES, "20 sites would take about 20 GiB")
    assert {one.metric: one.value for one in found.measurements} == {
        "mesh_time": 9.0,
        "mesh_memory": 1e6,
        "mesh_cpu": round(0.5 / 45, 5),
    }
    expected = found.measurements[0].detail["predicted"]["20"]
    assert expected["up_s"] == pytest.approx(19.0), "the points lie on a line"
    assert expected["memory_bytes"] == pytest.approx(190e6), "and on a parabola"
    assert "predicted, not measured: 20 sites would take" in found.warnings[0]


def test_a_size_that_was_too_slow_is_not_predicted_to_be_fast() -> None:
    points = [sized(2, 1.0), sized(3, 2.0), sized(5, 4.0)]
    found = results(points, SIZES, "10 sites: gw3 did not reach every later site within 60 s", too_slow=10).attempt
    assert [found["predicted"][size]["up_s"] for size in ("10", "20")] == [UP_WITHIN_S * PATIENCE] * 2
    assert found["predicted"]["10"]["up_at_least"]
    without = results(points, SIZES, "no memory").attempt  # the control: nobody tried
    assert without["predicted"]["10"]["up_s"] < 10
    assert "up_at_least" not in without["predicted"]["10"]


def test_ten_sites_that_were_not_brought_up_are_no_value() -> None:
    found = results([sized(2), sized(3)], SIZES, "no memory")
    assert not found.measurements
    assert found.attempt["predicted"]["10"]["memory_bytes"] == pytest.approx(45e6), "in proportion to the tunnels"
    assert found.attempt["inconclusive"]["mesh_time"]["reason"] == "no mesh of 10 sites: no memory"


@pytest.mark.parametrize(
    ("points", "left_s", "why"),
    [
        ([], 0.0, ""),
        ([sized(3)], 60.0, ""),
        ([sized(3, up_s=10.0)], 60.0, "10 sites would take about 150 s, and 60 s are left"),
        ([sized(3)], 2.0, "10 sites would take about 15 s, and 2 s are left"),
        ([sized(3, memory_bytes=2**45)], 60.0, "10 sites would take about 1474560.0 GiB of "),
    ],
)
def test_what_does_not_fit_is_not_tried(points: list[Size], left_s: float, why: str) -> None:
    assert no_room(points, 10, left_s).startswith(why)
    assert bool(no_room(points, 10, left_s)) == bool(why)


@pytest.mark.parametrize("system", tables()["table_5"]["rows"])
def test_the_papers_sums_are_recomputed_and_the_wrong_ones_marked(system: str) -> None:
    found = paper_effort(system)
    printed = tables()["table_5"]["rows"][system][-1]
    assert found["recomputed"]["10"] == WRONG_AT_10.get(system, printed)
    assert found["printed_at_10"].endswith("[sic]") == (system in WRONG_AT_10)
    assert found["total"].endswith("[sic]") == (system in WRONG_FORMULA)


@pytest.mark.parametrize(
    ("formula", "at_10"),
    [
        ("1", 1),
        ("", 0),
        ("N", 10),
        ("2(N-1)", 18),
        ("(N-1)", 9),
        ("N(2.5N)", 250),
        ("N(3N-2)", 280),
        ("N(2(N-1))", 180),
    ],
)
def test_formulas(formula: str, at_10: int) -> None:
    assert value(formula, 10) == Fraction(at_10)


@pytest.mark.parametrize("formula", ["M", "N**9", "print(1)", "N/2"])
def test_what_is_no_formula(formula: str) -> None:
    with pytest.raises(UsageError, match="not a formula in N"):
        value(formula, 10)


def test_the_papers_tables_have_its_fifteen_systems() -> None:
    sizes = {name: len(tables()[name]["rows"]) for name in tables() if name.startswith("table_")}
    assert sizes == {"table_1": 15, "table_2": 15, "table_3": 15, "table_4": 10, "table_5": 14}
    for name, count in sizes.items():
        columns = tables()[name]["columns"]
        assert all(len(row) == len(columns) for row in tables()[name]["rows"].values()), (name, count)
    assert set(tables()["table_1"]["rows"]) == set(tables()["table_2"]["rows"]) == set(tables()["table_3"]["rows"])


def test_table_4_is_found_for_the_systems_it_lists() -> None:
    assert paper_security("tinc") == dict.fromkeys(
        ("confidentiality", "data_integrity", "authentication", "anti_replay"), True
    )
    assert paper_security("l2tp")["confidentiality"] is False
    assert paper_security("vtun_tcp")["data_integrity"] is False
    assert paper_security("ipsec") == {}, "an open standard, which the paper does not take apart"
    assert paper_security("wireguard") == {}, "not in the paper"


def test_each_heir_has_the_row_of_its_system() -> None:
    assert {printed_tables(plugin)["setup"]["paper_system"]: plugin for plugin in HEIRS.values()} == HEIRS
    assert {*HEIRS} < {*tables()["table_1"]["rows"]}
    assert sorted((*OVER_UDP, *OVER_TCP)) == sorted(HEIRS.values())


def test_no_plugin_is_compared_with_a_system_that_the_paper_lacks() -> None:
    for name in vpn_names():
        for metric in ("setup", "modularity", "routing"):
            system = printed_tables(name)[metric].get("paper_system")
            assert system is None or system in tables()["table_1"]["rows"]
