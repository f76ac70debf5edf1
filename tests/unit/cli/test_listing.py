"""``vpneval list vpns``: by family, what makes each VPN run here, and how many musts it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.catalogue import load_vpn, version_names, vpn_names
from runner.choice.musts import WORDS
from runner.cli.commands.list import work as listing
from runner.cli.commands.list.work import tables, what_it_needs
from runner.data.named import MUSTS
from runner.lab.software import layers

CLAIMED = ["no", "shown", "declared", "unknown"]


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The packages of each image that is built: none, until the test says so."""
    built: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(listing, "packages_of", built.get)
    monkeypatch.setattr(layers, "locate", lambda layer, suite: Path("/nowhere", layer))
    return built


def test_a_line_for_each_vpn_by_family() -> None:
    rows = tables(whole=False)["vpns"]
    assert sorted(row["name"] for row in rows) == sorted([*vpn_names(), *version_names()])
    families = [row["family"] for row in rows]
    assert families == sorted(families, key=lambda family: (family == "–", family.lower()))
    assert all(sum(int(row[word]) for word in WORDS) == len(MUSTS) for row in rows)
    assert max(len(row["family"]) + len(row["name"]) for row in rows) <= 30
    whole = next(row for row in tables(whole=True)["vpns"] if row["name"] == "wireguard_go")
    assert whole["must ipv6-inside"] in CLAIMED
    assert whole["ciphers"] == "chacha20-poly1305"


def test_what_makes_it_run_here(images: dict[str, dict[str, str]]) -> None:
    go, ipsec, vtun, boring = map(load_vpn, ("wireguard_go", "ipsec", "vtun", "boringtun"))
    assert what_it_needs(go, {}) == "image trixie"
    images["trixie"] = dict.fromkeys(go.software.packages, "1")
    assert what_it_needs(go, {}) == "yes"
    assert what_it_needs(vtun, {}) == "image bookworm"
    images["bookworm"] = dict.fromkeys(vtun.software.packages, "1")
    assert what_it_needs(vtun, {}) == "yes, in Debian 12"
    assert what_it_needs(boring, {}) == "layer boringtun"
    assert what_it_needs(ipsec, {"esp4": True}) == "kernel: esp4"
    assert what_it_needs(ipsec, {"esp4": False}) == "doctor: esp4"
    images["bookworm"].clear()
    assert what_it_needs(vtun, {}) == "no package"
