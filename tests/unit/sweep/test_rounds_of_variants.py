"""Plain IP has its turns in the rounds of VPNs that all have a level which it cannot have, as a crypto driver."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_experiment, load_vpn
from runner.data.trials import Cell
from runner.design.profile import PROFILES
from runner.sweep.rounds import in_order, shared_levels

CHOSEN = {"driver": ["accelerated"], "measure": ["tcp"], "cipher": ["aes-128-cbc"], "compression": ["off"]}


def trial(cell: Cell) -> Any:
    instrument = SimpleNamespace(turns=1)
    return SimpleNamespace(planned=SimpleNamespace(cell=cell, instrument=instrument), times=1)


def trials() -> dict[str, Any]:
    experiment = load_experiment("thesis")
    return {
        vpn: trial(experiment.cells(load_vpn(vpn), PROFILES["quick"], CHOSEN)[0])
        for vpn in ("none", "openvpn", "ssh_tun")
    }


def test_plain_ip_is_in_the_rounds_of_vpns_with_a_driver() -> None:
    made = trials()
    assert made["openvpn"].planned.cell.params["driver"] == "accelerated"
    assert "driver" not in made["none"].planned.cell.params
    assert len({shared_levels(one) for one in made.values()}) == 1
    other = trial(Cell(vpn="none", params={"measure": "idle"}))
    due: list[Any] = [(None, one) for one in (*made.values(), other)]
    for seed in range(20):
        order = [one for _, one in in_order(due, random.Random(seed))]
        assert order.index(other) in (0, 3), "what is compared with each other follows one another"


@pytest.mark.parametrize("factor", ["wan_rate_bps", "streams"])
def test_what_a_path_or_a_traffic_is_keeps_cells_apart(factor: str) -> None:
    plain = made = trials()["none"]
    changed = trial(Cell(vpn="none", params={**made.planned.cell.params, factor: "7"}))
    assert shared_levels(plain) != shared_levels(changed)
