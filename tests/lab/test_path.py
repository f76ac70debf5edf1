"""The probes of a path against a toy VPN that bears everything, and against toys that each fail one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import instruments, load_vpn
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.result import Measured
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import SITES, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services
from runner.vpn.plugin import Vpn
from tests.lab.toy import Toy


@contextmanager
def bench_of(image: Image, vpn: Vpn, logs: Path) -> Iterator[Bench]:
    with namespace_lab(image, logs=logs) as lab:
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)

        def never() -> None:
            raise AssertionError("a probe of a path asked for a new tunnel")

        yield Bench(lab, bring_up(lab, vpn, vpn.recommended, secrets, judged=False), never)  # type: ignore[arg-type]


def toy(*weak: str) -> Toy:
    vpn = Toy()
    vpn.weak = weak
    return vpn


def probed(bench: Bench, vpn: Vpn, probe: str) -> Measured:
    return at_once(instruments()[probe].measure(bench, Asked(vpn, {"measure": probe}, PROFILES["smallest"], seed=1)))


def kinds(found: Measured) -> dict[str, tuple[str, float]]:
    assert all(one.detail["control"] for one in found.measurements)
    return {one.metric: (one.detail["kind"], one.value) for one in found.measurements}


WHOLE = {
    "marks": {"dscp_copied": ("zero", 0.0), "congestion_heard": ("not_copied", 1.0)},
    "reordering": {"reordering_depth": ("window", 64.0)},
    "repeats": {"duplicates_borne": ("once", 1.0), "burst_loss_borne": ("exact", 1.0)},
}


@pytest.mark.smoke
def test_a_toy_that_bears_a_path(image: Image, tmp_path: Path) -> None:
    with bench_of(image, toy(), tmp_path) as bench:
        assert {probe: kinds(probed(bench, toy(), probe)) for probe in WHOLE} == WHOLE


@pytest.mark.parametrize(
    ("weak", "probe", "metric", "kind"),
    [
        ("copies", "marks", "congestion_heard", "lost"),
        ("in_order", "reordering", "reordering_depth", "window"),
        ("chokes", "repeats", "duplicates_borne", "lost"),
        ("unbroken", "repeats", "burst_loss_borne", "more_lost"),
        ("replays", "repeats", "duplicates_borne", "twice"),
    ],
)
def test_each_weakness_is_found(image: Image, tmp_path: Path, weak: str, probe: str, metric: str, kind: str) -> None:
    vpn = toy(weak)
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, probe)
    seen, value = kinds(found)[metric]
    assert seen == kind, found
    assert (value < 1) == (weak != "replays")


@pytest.mark.parametrize("probe", ["reordering", "repeats"])
def test_without_its_control_there_is_no_verdict(image: Image, tmp_path: Path, probe: str) -> None:
    """The far gateway takes no plain packets: what the tunnel delivers proves nothing then."""
    with bench_of(image, toy(), tmp_path) as bench:
        far = bench.lab.gateway(bench.lab.sites[-1])
        chain = "type filter hook ingress device wan0 priority 0"
        far.run("nft", "-f", "-", input=f"table netdev t {{ chain c {{ {chain};\nudp dport 5203 drop\n}}\n}}\n")
        found = probed(bench, toy(), probe)
    assert not found.measurements
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} <= {"no_control", "no_answer"}


def test_a_wan_that_clears_marks_says_nothing_about_a_vpn(image: Image, tmp_path: Path) -> None:
    with bench_of(image, toy(), tmp_path) as bench:
        near = bench.lab.gateway(bench.lab.sites[0])
        chain = "type filter hook output priority 0"
        near.run("nft", "-f", "-", input=f"table ip t {{ chain c {{ {chain};\nudp dport 9 ip dscp set 0\n}}\n}}\n")
        found = probed(bench, toy(), "marks")
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


def test_plain_ip_keeps_marks_and_order(image: Image, tmp_path: Path) -> None:
    plain = load_vpn("none")
    with bench_of(image, plain, tmp_path) as bench:
        assert kinds(probed(bench, plain, "marks")) == {
            "dscp_copied": ("copied", 1.0),
            "congestion_heard": ("heard", 1.0),
        }
        assert kinds(probed(bench, plain, "reordering")) == {"reordering_depth": ("all", 16384.0)}
