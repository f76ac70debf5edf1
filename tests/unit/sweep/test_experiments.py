"""The contract that every experiment keeps."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import replace

import pytest

from runner.catalogue import experiment_names, factors, load_experiment, load_vpn, vpn_names
from runner.data.errors import UsageError
from runner.data.levels import BY_PROFILE, SHARES, TUNNEL, WAN_FACTORS
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES, Profile
from runner.papers import judges
from tests.unit.synthetic import METRICS

EVERY = pytest.mark.parametrize(
    "experiment", [load_experiment(name) for name in experiment_names()], ids=lambda e: e.name
)


def test_the_thesis_experiments_are_there() -> None:
    assert set(experiment_names()) >= {"transport", "cipher", "compression", "reference"}


@EVERY
def test_its_file_says_what_it_is(experiment: Experiment) -> None:
    module = importlib.import_module(f"experiments.{experiment.name}")
    assert module.EXPERIMENT.name == experiment.name
    assert module.__doc__
    assert experiment.question.endswith("?")
    assert experiment.method.endswith(".")
    assert re.search(r"§|RFC \d|\(\d\)", experiment.source), "a source names its section, RFC or man page"


def test_the_judges_of_an_experiment_have_its_name_and_say_what_they_judge() -> None:
    judged = [module.name for module in pkgutil.iter_modules(judges.__path__)]
    assert {*judged} < {*experiment_names()}, "named after its experiment"
    for name in judged:
        module = importlib.import_module(f"runner.papers.judges.{name}")
        own = [it for _, it in inspect.getmembers(module, inspect.isfunction) if it.__module__ == module.__name__]
        assert own
        assert all(one.__doc__ for one in own)


@EVERY
def test_metrics_and_levels_are_known_and_its_traffic_measures_them(experiment: Experiment) -> None:
    assert set(experiment.metrics) <= set(METRICS)
    assert len(set(experiment.metrics)) == len(experiment.metrics)
    measured = {traffic["measure"] for traffic in experiment.traffic}
    assert {METRICS[metric].measure for metric in experiment.metrics} == measured
    for factor, levels in {**experiment.vary, **experiment.vary_traffic}.items():
        assert set(levels) <= set(factors()[factor].named)
        assert len(set(levels)) == len(levels) > 1
    assert set(experiment.vary) <= {*TUNNEL, *WAN_FACTORS}
    assert set(experiment.wan) <= set(WAN_FACTORS)
    assert not set(experiment.vary_traffic) & set(TUNNEL)
    for factor, level in [item for traffic in experiment.traffic for item in traffic.items()]:
        least, most = SHARES.get(factor) or factors()[factor].range or (0, -1)
        assert level in (*factors()[factor].named, BY_PROFILE) or least <= float(level) <= most
    assert experiment.base in ("comparable", "recommended")
    assert set(experiment.only) <= set(vpn_names())


@EVERY
def test_every_profile_leaves_something_of_it_for_every_vpn(experiment: Experiment) -> None:
    whole = {traffic["measure"] for traffic in experiment.traffic}
    for profile in PROFILES.values():
        measured: set[str] = set()
        for name in experiment.only or vpn_names():
            cells = experiment.cells(load_vpn(name), profile, {})
            assert cells, (profile.name, name)
            measured |= {cell.params["measure"] for cell in cells}
            assert measured == whole or experiment.wanted, "who chooses alone may leave traffic out for a VPN"
        assert measured == whole, profile.name


@pytest.mark.parametrize(("name", "vpn"), [("ha", "ipsec_user"), ("ha_http", "ipsec_user")])
@pytest.mark.parametrize("profile", ["quick", "thesis"])
def test_who_names_a_tunnel_gets_nothing_that_makes_no_sense(name: str, vpn: str, profile: str) -> None:
    experiment = load_experiment(name)
    assert experiment.sensible
    named = experiment.cells(load_vpn(vpn), PROFILES[profile], {"cipher": ["null"], "integrity": ["hmac-sha1"]})
    assert named
    assert all(experiment.sensible(cell.params) for cell in named)
    without = replace(experiment, sensible=None)
    control = without.cells(load_vpn(vpn), PROFILES[profile], {"cipher": ["null"], "integrity": ["hmac-sha1"]})
    assert len(control) > len(named)


@EVERY
def test_record_holds_what_was_asked(experiment: Experiment) -> None:
    name = "openvpn" if not experiment.only or "openvpn" in experiment.only else experiment.only[-1]
    vpns = [load_vpn("none"), load_vpn(name)]
    record = experiment.record(vpns, PROFILES["quick"], {"cipher": ["aes-256-gcm"]})
    assert record.cells == [
        c for vpn in vpns for c in experiment.cells(vpn, PROFILES["quick"], {"cipher": ["aes-256-gcm"]})
    ]
    assert set(record.factors) == set(experiment.vary) | set(experiment.vary_traffic)
    assert record.factors.get("cipher", ["aes-256-gcm"]) == ["aes-256-gcm"]
    ciphers = {cell.params["cipher"] for cell in record.cells if cell.vpn == name}
    assert ciphers == {"aes-256-gcm"}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_profile_levels_are_known(profile: Profile) -> None:
    for factor, levels in profile.levels.items():
        assert set(levels) <= set(factors()[factor].named)


def test_every_metric_is_measured_by_an_experiment() -> None:
    assert {metric for name in experiment_names() for metric in load_experiment(name).metrics} == set(METRICS)


def test_an_unknown_experiment() -> None:
    with pytest.raises(UsageError, match="unknown experiment 'cypher'; did you mean cipher"):
        load_experiment("cypher")


def test_a_factor_without_a_default_can_be_asked_for_where_its_instrument_measures() -> None:
    """It was ignored without a word: docs/method.md offers `--set flows=256` in any experiment with UDP."""
    chosen = {"lengths": ["imix"], "ways": ["both"]}
    cells = load_experiment("transport").cells(load_vpn("openvpn"), PROFILES["quick"], chosen)
    udp = [cell.params for cell in cells if cell.params["measure"] == "udp"]
    asked = [{factor: params.get(factor) for factor in chosen} for params in udp]
    assert asked == [{"lengths": "imix", "ways": "both"}]
    assert not any(chosen.keys() & cell.params.keys() for cell in cells if cell.params["measure"] != "udp")
