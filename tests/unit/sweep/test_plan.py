"""From experiments to trials: cells, blocks, what is missing, and the expected time."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from runner.catalogue import experiment_names, load_experiment, load_vpn, parse_levels, vpn_names
from runner.data.errors import UsageError
from runner.data.levels import AEAD, tunnel_levels
from runner.data.trials import Cell
from runner.design.profile import PROFILES, Profile
from runner.instruments.traffic.udp import Udp
from runner.sweep.plan import PlannedTunnel, all_cells, blocks, expected_s, ranked_cells
from runner.vpn.plugin import Vpn

QUICK, THESIS, SMALLEST = PROFILES["quick"], PROFILES["thesis"], PROFILES["smallest"]
WHOLE = replace(QUICK, rounds=0)  # every measurement whole, one after another: what --duration makes of it
VPNS = [load_vpn(name) for name in vpn_names()]
THREE = [load_vpn(name) for name in ("none", "openvpn", "wireguard_go")]


def cells_of(
    *experiments: str, vpns: list[Vpn] | None = None, levels: str = "", images: tuple[str, ...] = ()
) -> list[Cell]:
    chosen = parse_levels(levels)
    return all_cells([load_experiment(name) for name in experiments], vpns or THREE, QUICK, chosen, images)


def levels_in(cells: list[Cell], factor: str, vpn: str) -> set[str]:
    return {cell.params[factor] for cell in cells if cell.vpn == vpn and factor in cell.params}


# --- cells ---------------------------------------------------------------------------------------------------


def test_cells_that_experiments_share_are_measured_once() -> None:
    each = [cells_of(name, vpns=VPNS) for name in experiment_names()]
    together = cells_of(*experiment_names(), vpns=VPNS)
    keys = [cell.key for cell in together]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {cell.key for cells in each for cell in cells}
    assert len(keys) < sum(map(len, each))
    shared = Cell(
        vpn="openvpn",
        params={"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
        | {"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"},
    )
    having = {name for name, cells in zip(experiment_names(), each, strict=True) if shared in cells}
    assert having >= {"transport", "cipher", "compression", "reference", "cost"}
    assert "recommended" not in having


def test_transport_by_hand() -> None:
    cells = cells_of("transport", vpns=[load_vpn("openvpn")])
    tunnel = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
    tcp = {"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
    assert [cell.params for cell in cells] == [
        tunnel | tcp,
        tunnel | tcp | {"direction": "reverse"},
        tunnel | tcp | {"streams": "4"},
        tunnel | {"measure": "udp", "payload_bytes": "1300"},
        tunnel | {"measure": "idle"},
    ]


def test_a_profile_restricts_levels() -> None:
    cipher = load_experiment("cipher")
    openvpn = load_vpn("openvpn")
    assert len(cipher.cells(openvpn, THESIS, {})) == 8
    encrypting = set(QUICK.levels["cipher"]) - {"null"}
    assert {cell.params["cipher"] for cell in cipher.cells(openvpn, QUICK, {})} == encrypting
    payloads = {cell.params["payload"] for cell in load_experiment("compression").cells(openvpn, SMALLEST, {})}
    assert payloads == {"random", "zeros"}


def test_the_thesis_profile_sends_large_datagrams() -> None:
    sizes = {cell.params.get("payload_bytes") for cell in load_experiment("transport").cells(VPNS[0], THESIS, {})}
    assert sizes == {None, "1470"}


def test_set_overrides_the_profile_and_the_declared_levels() -> None:
    cells = cells_of("cipher", levels="cipher=aes-192-cbc,cipher=null")
    assert levels_in(cells, "cipher", "openvpn") == {"aes-192-cbc", "null"}
    assert levels_in(cells, "cipher", "none") == {"none"}


def test_set_of_a_tunnel_factor_that_the_experiment_does_not_vary() -> None:
    cells = cells_of("transport", levels="compression=on,integrity=hmac-sha1")
    assert levels_in(cells, "compression", "openvpn") == {"on"}
    assert levels_in(cells, "integrity", "openvpn") == {"hmac-sha1"}


def test_set_of_a_traffic_factor() -> None:
    cells = cells_of("transport", levels="measure=udp")
    assert {cell.params["measure"] for cell in cells} == {"udp"}
    cells = cells_of("transport", levels="streams=4")
    assert {cell.params["streams"] for cell in cells if cell.params["measure"] == "tcp"} == {"4"}
    assert {cell.params["measure"] for cell in cells} == {"tcp", "udp", "idle"}
    assert cells_of("cipher", levels="measure=udp") == []


@pytest.mark.parametrize("cipher", AEAD)
def test_an_aead_has_its_own_integrity(cipher: str) -> None:
    for levels in (f"cipher={cipher}", f"cipher={cipher},integrity=hmac-sha1"):
        assert levels_in(cells_of("cipher", levels=levels), "integrity", "openvpn") == {"aead"}


def test_cbc_ciphers_share_one_integrity() -> None:
    cells = load_experiment("cipher").cells(load_vpn("ipsec"), THESIS, {})
    integrities = {cell.params["cipher"]: cell.params["integrity"] for cell in cells}
    assert {integrities[cipher] for cipher in integrities if cipher.endswith("-cbc")} == {"hmac-sha256"}


def test_references_have_one_tunnel() -> None:
    cells = cells_of("cipher", "compression", vpns=VPNS, levels="cipher=aes-128-cbc,cipher=aes-128-gcm")
    for name in ("none", "ipip"):
        tunnels = {tuple(tunnel_levels(cell.params).items()) for cell in cells if cell.vpn == name}
        assert tunnels == {(("cipher", "none"), ("integrity", "none"), ("compression", "off"))}
    assert levels_in(cells, "payload", "none") == {"random"}, "quick skips other payloads without compression"


def test_what_a_vpn_lacks_has_a_cell_so_that_it_is_told() -> None:
    cells = cells_of("cipher", "transport", vpns=VPNS)
    assert levels_in(cells, "cipher", "wireguard_go") == set(QUICK.levels["cipher"]) - {"null"}
    assert any(cell.vpn == "ssh_forward" and cell.params["measure"] == "udp" for cell in cells)


def test_gateway_images_multiply_cells_but_not_those_of_references() -> None:
    plain = cells_of("transport")
    both = cells_of("transport", images=("trixie", "bookworm"))
    assert levels_in(both, "image", "openvpn") == {"trixie", "bookworm"}
    assert levels_in(both, "image", "none") == set()
    count = {name: sum(cell.vpn == name for cell in plain) for name in ("none", "openvpn", "wireguard_go")}
    assert len(both) == count["none"] + 2 * (count["openvpn"] + count["wireguard_go"])
    tunnels = {tunnel.params.get("image") for tunnel in planned(both, 1)[0] if tunnel.vpn == "openvpn"}
    assert tunnels == {"trixie", "bookworm"}


# --- blocks --------------------------------------------------------------------------------------------------

CELLS = cells_of("transport", "cipher", "compression")


def planned(
    cells: Sequence[Cell],
    repetitions: int,
    seed: int = 1,
    done: Collection[str] = (),
    hopeless: Collection[str] = (),
    profile: Profile = WHOLE,
) -> list[list[PlannedTunnel]]:
    """The tunnels of each block."""
    return [one.tunnels for one in blocks(cells, repetitions, seed, {*done}, {*hopeless}, profile)]


BOTH = pytest.mark.parametrize("profile", [QUICK, WHOLE], ids=["in turns", "whole"])


def ids(block: list[PlannedTunnel]) -> list[str]:
    return [trial.id for tunnel in block for trial in tunnel.trials]


def test_the_baseline_is_first_and_last_in_each_block() -> None:
    plan = planned(CELLS, 3, 1)
    assert len(plan) == 3
    for block in plan:
        positions = [(tunnel.vpn, tunnel.trials[0].position) for tunnel in block]
        assert positions[0] == ("none", "first")
        assert positions[-1] == ("none", "last")
        middle = positions[1:-1]
        assert all((vpn == "none") == (position == "between") for vpn, position in middle)
        assert {position for _, position in middle} == {"within", "between"}
        before, after = (list(part).index(("none", "between")) for part in (middle, reversed(middle)))
        assert abs(before - after) <= 1


def test_an_instrument_says_whether_plain_ip_is_measured_by_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Udp, "again", lambda self, params: ("last",))
    tunnels = planned(CELLS, 1, 1)[0]
    last = [tunnel for tunnel in tunnels if tunnel.trials[0].position == "last"]
    assert {trial.cell.params["measure"] for tunnel in last for trial in tunnel.trials} == {"tcp", "idle", "udp"}


def test_the_baseline_between_is_one_stream_in_long_blocks_and_never_after_the_last() -> None:
    whole = planned(CELLS, 1, 1)[0]
    between = [tunnel for tunnel in whole if tunnel.trials[0].position == "between"]
    assert [[trial.cell.params["measure"] for trial in tunnel.trials] for tunnel in between] == [["tcp"]]
    assert between[0].trials[0].id.endswith("-r1-between")
    assert between[0].name == "r1-between-none"
    short = [cell for cell in CELLS if cell.params["cipher"] in ("none", "aes-128-cbc", "chacha20-poly1305")]
    tunnels = planned([c for c in short if c.params["compression"] == "off"], 1)[0]
    assert len(tunnels) < 8
    assert "between" not in {tunnel.trials[0].position for tunnel in tunnels}
    closed = {trial.id for trial in whole[-1].trials}
    assert "between" not in {tunnel.trials[0].position for tunnel in planned(CELLS, 1, 1, closed)[0]}


def test_the_udp_search_of_the_baseline_is_not_repeated() -> None:
    block = planned(CELLS, 1, 1)[0]
    transports = [{trial.cell.params["measure"] for trial in block[index].trials} for index in (0, -1)]
    assert transports == [{"tcp", "udp", "idle"}, {"tcp", "idle"}]


def test_a_block_has_every_cell_once_in_one_tunnel_for_each_configuration() -> None:
    block = planned(CELLS, 1, 1)[0]
    block = [tunnel for tunnel in block if tunnel.trials[0].position != "between"]
    within = [trial.cell.key for tunnel in block[:-1] for trial in tunnel.trials]
    assert sorted(within) == sorted(cell.key for cell in CELLS)
    seen = set()
    for tunnel in block[1:-1]:
        name = (tunnel.vpn, *tunnel.params.values())
        assert name not in seen
        seen.add(name)
        for trial in tunnel.trials:
            assert trial.cell.vpn == tunnel.vpn
            assert tunnel_levels(trial.cell.params) == tunnel.params


@BOTH
def test_trial_ids_are_unique_over_the_whole_plan(profile: Profile) -> None:
    every = [name for block in planned(CELLS, 3, profile=profile) for name in ids(block)]
    assert len(set(every)) == len(every)


def test_log_folders_are_unique_over_the_whole_plan() -> None:
    names = [tunnel.name for block in planned(CELLS, 3, 1) for tunnel in block]
    assert len(set(names)) == len(names)


@BOTH
def test_the_order_follows_from_the_seed(profile: Profile) -> None:
    first, second, other = (planned(CELLS, 2, seed, profile=profile) for seed in (7, 7, 8))
    assert first == second
    assert [ids(block) for block in first] != [ids(block) for block in other]


@BOTH
def test_the_order_differs_between_repetitions(profile: Profile) -> None:
    one, two = planned(CELLS, 2, profile=profile)

    def order(block: list[PlannedTunnel]) -> list[str]:
        return [trial.cell.key for tunnel in block for trial in tunnel.trials]

    assert sorted(order(one)) == sorted(order(two))
    assert order(one) != order(two)
    assert [tunnel.params for tunnel in one] != [tunnel.params for tunnel in two]  # of tunnels
    traffic = {
        tuple(trial.cell.params["measure"] for trial in next(tunnel for tunnel in block if tunnel.vpn == "none").trials)
        for block in planned(CELLS, 6, profile=profile)
    }
    assert len(traffic) > 1  # and inside them


@BOTH
@pytest.mark.parametrize("share", [2, 3, 7])
def test_a_second_call_plans_exactly_what_is_missing_in_the_same_order(share: int, profile: Profile) -> None:
    whole = [name for block in planned(CELLS, 3, profile=profile) for name in ids(block)]
    done = set(whole[::share])
    done -= {name for name in whole if name.endswith("-last")}  # a block with its last baseline has no middle any more
    missing = [name for block in planned(CELLS, 3, done=done, profile=profile) for name in ids(block)]
    assert missing == [name for name in whole if name not in done]
    assert [name for block in planned(CELLS, 3, done=whole, profile=profile) for name in ids(block)] == []


@BOTH
def test_more_repetitions_add_blocks_and_change_none(profile: Profile) -> None:
    assert planned(CELLS, 4, profile=profile)[:2] == planned(CELLS, 2, profile=profile)


@BOTH
def test_unsupported_cells_are_left_out_of_every_block(profile: Profile) -> None:
    hopeless = {cell.key for cell in CELLS if cell.vpn == "wireguard_go"}
    for block in planned(CELLS, 2, 1, hopeless=hopeless, profile=profile):
        assert {tunnel.vpn for tunnel in block} == {"none", "openvpn"}


# --- tunnels that stand together ---------------------------------------------------------------------------------


def test_what_takes_turns_stands_together_and_the_rest_comes_one_after_another() -> None:
    cells = cells_of("transport", "cipher", "download")
    (one,) = blocks(cells, 1, 1, set(), set(), QUICK)
    together, single = ([trial for tunnel in part for trial in tunnel.trials] for part in (one.standing, one.single))
    assert {trial.cell.params["measure"] for trial in together} == {"tcp", "idle", "udp"}
    assert {trial.cell.params["measure"] for trial in single} == {"download"}
    assert sorted(trial.cell.key for trial in (*together, *single)) == sorted(cell.key for cell in cells)
    assert {trial.position for tunnel in one.standing for trial in tunnel.trials} == {"within"}
    assert sum(tunnel.vpn == "none" for tunnel in one.standing) == 1  # its turn comes in each round
    standing = [(tunnel.vpn, *tunnel.params.values()) for tunnel in one.standing]
    assert len(set(standing)) == len(standing)


def test_without_rounds_nothing_stands_together() -> None:
    assert all(one.standing == [] for one in blocks(CELLS, 2, 1, set(), set(), WHOLE))


def test_what_stands_together_comes_up_in_another_order_each_time() -> None:
    first, second = blocks(CELLS, 2, 1, set(), set(), QUICK)
    names = [[(tunnel.vpn, *tunnel.params.values()) for tunnel in one.standing] for one in (first, second)]
    assert sorted(names[0]) == sorted(names[1])
    assert names[0] != names[1]


def test_a_ranking_is_made_of_named_configurations_with_the_ranked_traffic() -> None:
    vpns = {vpn.name: vpn for vpn in THREE}
    cells = cells_of("transport", "cipher", "recommended")
    ranked = ranked_cells(cells, vpns)
    chosen = [cell for cell in cells if cell.key in ranked]
    assert {cell.vpn for cell in chosen} == {*vpns}
    assert levels_in(chosen, "streams", "openvpn") == {"1"}
    assert levels_in(chosen, "direction", "openvpn") == {"forward"}
    assert levels_in(chosen, "cipher", "openvpn") == {
        one["cipher"] for one in (vpns["openvpn"].comparable, vpns["openvpn"].recommended)
    }
    assert {cell.params["measure"] for cell in chosen} == {"tcp", "udp", "idle"}


def test_where_nothing_is_ranked_every_cell_counts_alike() -> None:
    odd = [cell for cell in CELLS if cell.vpn == "openvpn" and cell.params.get("streams") == "4"]
    assert ranked_cells(odd, {vpn.name: vpn for vpn in THREE}) == dict.fromkeys((cell.key for cell in odd), 1)


# --- time ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_tunnel_takes_time(profile: Profile) -> None:
    for block in planned(CELLS, 2, profile=profile):
        for tunnel in block:
            assert expected_s(tunnel, profile) > 0.9 + len(tunnel.trials) * 0.2


def test_longer_profiles_take_longer() -> None:
    block = planned(CELLS, 1)[0]
    smallest, whole, thesis = (sum(expected_s(t, profile) for t in block) for profile in (SMALLEST, WHOLE, THESIS))
    assert smallest < whole < thesis
    in_turns = sum(expected_s(tunnel, QUICK) for tunnel in planned(CELLS, 1, profile=QUICK)[0])
    assert smallest < in_turns < thesis
    longer = replace(QUICK, rounds=2 * QUICK.rounds)
    assert in_turns < sum(expected_s(tunnel, longer) for tunnel in planned(CELLS, 1, profile=longer)[0])


def test_a_warm_search_is_expected_to_be_shorter() -> None:
    cell = next(cell for cell in CELLS if cell.params["measure"] == "udp" and cell.vpn == "openvpn")
    cold, warm = (block[0] for block in planned([cell], 2, 1))
    assert expected_s(warm, WHOLE) < expected_s(cold, WHOLE)
    assert expected_s(cold, WHOLE) <= 0.9 + 9 + 1.5  # tunnel, budget, jitter


# --- --set ---------------------------------------------------------------------------------------------------


def test_parse_levels() -> None:
    assert parse_levels("") == {}
    assert parse_levels(" cipher=aes-128-cbc , cipher=null,streams=4,") == {
        "cipher": ["aes-128-cbc", "null"],
        "streams": ["4"],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cipher", "--set takes factor=level, not 'cipher'"),
        ("cipher=", "--set takes factor=level"),
        ("cypher=null", "unknown factor 'cypher'; did you mean cipher"),
        ("cipher=aes-129-cbc", "unknown cipher level 'aes-129-cbc'; did you mean aes-"),
        ("streams=3", "unknown streams level '3'; did you mean 32? Valid: 1, 2, 4"),
    ],
)
def test_parse_levels_refuses(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_levels(text)
    assert said in str(error.value)
