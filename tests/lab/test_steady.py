"""An uncut stretch through VPNs that go wrong now and then, and through one and plain IP that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.choice.watched import Watched
from runner.data.trials import Value
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.traffic import steady
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import SITES, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services
from tests.lab.unsteady import unsteady

RATE_BPS, POLICED_BPS, STRETCH_S = 20_000_000, 14_000_000, 15.0
CALM_S, CALM_SHARE = 0.08, 0.1  # plain IP's longest gap, and its bad and limited windows, on a machine that tells


def stretch(image: Image, folder: Path, name: str) -> Watched:
    """What is found of this VPN of the tree, or of a file of ``unsteady``."""
    vpn = load_vpn(name if name in ("none", "openvpn") else str(unsteady(folder, name, POLICED_BPS)))
    with namespace_lab(image, logs=folder) as lab:
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)
        up = bring_up(lab, vpn, vpn.recommended, secrets)
        bench = Bench(lab, up, lambda: (lab, up))
        params = {**vpn.recommended, "measure": "steady", "steady_bps": str(RATE_BPS)}
        try:
            measured = at_once(steady.Steady().measure(bench, Asked(vpn, params, PROFILES["quick"], 1)))
        finally:
            bench.close()
    return as_watched({value.metric: value for value in measured.measurements})


def as_watched(values: dict[str, Value]) -> Watched:
    detail = values["steady_gap"].detail
    return Watched(
        **{name: detail[name] for name in ("rate_bps", "seconds", "windows", "bad_windows", "limited_windows")},
        longest_gap_s=values["steady_gap"].value,
        latest_s=values["steady_late"].value,
        worst_second_loss_ratio=values["steady_worst_second_loss"].value,
        loss_ratio=values["steady_loss"].value,
        loss_by_second=tuple(detail["loss_by_second"]),
        broke_down=detail["broke_down"],
    )


@pytest.fixture
def found(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Watched]:
    """Watches a VPN where plain IP is undisturbed at the same time: skips the test where this machine is too busy."""
    monkeypatch.setattr(steady, "STRETCH_S", STRETCH_S)
    monkeypatch.setattr(steady, "CONTROL_S", STRETCH_S / 2)
    plain = stretch(image, tmp_path, "none")
    disturbed = (plain.bad_windows + plain.limited_windows) / plain.windows
    if plain.longest_gap_s > CALM_S or disturbed > CALM_SHARE:
        pytest.skip(
            f"this machine is too busy: over plain IP nothing came for {plain.longest_gap_s:g} s, and {disturbed:.0%} "
            "of the windows were bad, or the sender fell short"
        )
    return lambda name: stretch(image, tmp_path, name)


def test_a_vpn_that_does_its_work_is_clean(found: Callable[[str], Watched]) -> None:
    clean = found("openvpn")
    assert clean.worst_second_loss_ratio < 0.01
    assert clean.longest_gap_s < 0.15
    assert clean.bad_windows <= 0.05 * clean.windows


def test_holes_are_seen_as_loss_and_as_a_gap(found: Callable[[str], Watched]) -> None:
    hole = found("hole")
    assert hole.longest_gap_s > 0.5
    assert hole.worst_second_loss_ratio > 0.3
    assert hole.bad_windows > 0.05 * hole.windows


def test_a_daemon_that_stalls_is_seen_by_the_gap_and_by_what_is_late(found: Callable[[str], Watched]) -> None:
    stall = found("stall")
    assert 0.18 < stall.longest_gap_s < 0.5
    assert 0.1 < stall.latest_s < 0.5  # a part of what waited was lost


def test_a_policer_is_seen_when_its_burst_is_used_up(found: Callable[[str], Watched]) -> None:
    policed = found("policed")
    assert policed.loss_by_second[0] < 0.01
    assert min(policed.loss_by_second[8:]) > 0.2
    assert policed.bad_windows > policed.windows / 4


def test_a_daemon_that_begins_anew_is_seen(found: Callable[[str], Watched]) -> None:
    breaks = found("breaks")
    assert breaks.longest_gap_s > 0.5
    assert breaks.worst_second_loss_ratio > 0.5
    assert not breaks.broke_down, "it comes back"
