"""Certificates that expire while a tunnel runs: who dies of it, who does not, and who accepts them afterwards."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.design.profile import PROFILES
from runner.instruments.failures import expiry as expiries
from runner.instruments.failures.expiry import Expiry
from runner.instruments.instrument import Asked, at_once
from runner.lab.node import Node
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from runner.vpn.lifecycle import Lifecycle
from runner.vpn.plugin import Secrets, Vpn

pytestmark = pytest.mark.timeout(300)


@contextmanager
def bench_of(image: Image, vpn: Vpn, logs: Path) -> Iterator[Bench]:
    with ExitStack() as labs:

        def keys(*, others: bool = False, sites: Sequence[Site] = (), lasts_s: int = 0) -> Secrets:
            return make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES, lasts_s)

        def bare() -> Lab:
            labs.close()
            lab = labs.enter_context(namespace_lab(image, logs=logs))
            start_services(lab)
            return lab

        def fresh() -> tuple[Lab, Tunnel]:
            lab = bare()
            return lab, bring_up(lab, vpn, {**vpn.recommended, **Expiry().asks({})}, keys())

        yield Bench(*fresh(), fresh, bare=bare, keys=keys)


def found(image: Image, vpn: Vpn, logs: Path) -> dict[str, str]:
    with bench_of(image, vpn, logs) as bench:
        asked = Asked(vpn, {**vpn.recommended, "measure": "expiry"}, PROFILES["smallest"], seed=1)
        measured = at_once(Expiry().measure(bench, asked))
    assert not measured.warnings
    return {value.metric: value.detail["kind"] for value in measured.measurements}


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiries, "VALID_S", 12)
    monkeypatch.setattr(expiries, "LASTING_S", 15.0)
    monkeypatch.setattr(expiries, "AFTER_S", 25.0)


@pytest.mark.parametrize(("name", "running"), [("openvpn", "keys_stay"), ("ipsec_user", "lives"), ("nebula", "dies")])
def test_what_becomes_of_a_tunnel(image: Image, tmp_path: Path, name: str, running: str) -> None:
    assert found(image, load_vpn(name), tmp_path) == {"expiry_borne": running, "expiry_refused": "refused"}


def careless() -> Vpn:
    """WireGuard, which has certificates beside its keys, and looks at none of them."""
    plugin: type[Vpn] = type(load_vpn("wireguard_go"))

    class Careless(plugin):  # type: ignore[valid-type, misc]
        def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
            made: dict[str, str] = super().secrets(ca, sites)
            return made | {
                name: text for name, text in load_vpn("openvpn").secrets(ca, sites).items() if name.endswith(".crt")
            }

        def lifecycle(self) -> Lifecycle:
            return Lifecycle()

    found: Vpn = Careless()
    return found


def test_who_accepts_what_has_expired_is_caught(image: Image, tmp_path: Path) -> None:
    assert found(image, careless(), tmp_path) == {"expiry_borne": "lives", "expiry_refused": "accepted"}


def test_nobody_is_blamed_where_nothing_expired(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vpns._certificates.seconds_of", lambda ca: 0)
    with bench_of(image, careless(), tmp_path) as bench:
        asked = Asked(careless(), {**careless().recommended, "measure": "expiry"}, PROFILES["smallest"], seed=1)
        measured = at_once(Expiry().measure(bench, asked))
    assert not measured.measurements
    assert "nothing here shows that its certificates expired" in measured.warnings[0]
