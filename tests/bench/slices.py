"""`make bench-slices`: the TCP throughput of short slices beside iperf3's, on each VPN that this machine supports.

usage: bench_slices.py [--vpn NAME,…] [--rounds N] [--seconds S]   (S of an iperf3 test, 3)

In a round, slices of each length and one iperf3 test go through the same tunnel in random order. Printed is the ratio
slice / iperf3: the geometric mean of the rounds' ratios, with its 95 % t interval on logarithms.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import MeasurementError, VpnevalError
from runner.evidence.stats import compare_blocks
from runner.instruments.tools.visits import visits
from runner.instruments.traffic.tcp import tcp
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab, check_machine
from runner.lab.software.image import open_image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services, vpn_refusal

SLICES_S = (0.15, 0.2, 0.6)  # the second is that of the profile quick
NEAR = 0.03  # a slice should be within this of iperf3
IPERF3 = "iperf3"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--vpn", default=",".join(vpn_names()))
    asked.add_argument("--rounds", type=int, default=10)
    asked.add_argument("--seconds", type=int, default=3)
    options = asked.parse_args()
    check_machine()
    table = Table(title=f"slice / iperf3 of {options.seconds} s, {options.rounds} rounds", header_style="bold")
    for column in ("VPN", "iperf3 (Mbit/s)", *(f"{slice_s:g} s" for slice_s in SLICES_S), "0.6 s / 0.15 s"):
        table.add_column(column)
    for name in options.vpn.split(","):
        try:
            with bench_of(name) as bench:
                found = rounds(bench, options.rounds, options.seconds)
        except (VpnevalError, TimeoutError) as lack:
            print(f"{name}: {str(lack)[:160]}", flush=True)
            continue
        table.add_row(*row(name, found))
        print("; ".join(row(name, found)), flush=True)
    Console().print(table)


@contextmanager
def bench_of(name: str) -> Iterator[Bench]:
    """The VPN up in a lab of its own. Raises MeasurementError where this machine does not support it."""
    vpn, image, rig = load_vpn(name), open_image(), NamespaceRig()
    with TemporaryDirectory() as logs, rig.lab(image, logs=Path(logs)) as lab:
        if no := vpn_refusal(lab, vpn, vpn.comparable):
            raise MeasurementError(no.reason)
        secrets = make_secrets(vpn, rig.alone(image, lambda line: None), lab.sites)
        start_services(lab)
        bench = Bench(lab, bring_up(lab, vpn, vpn.comparable, secrets), no_renewal)
        try:
            yield bench
        finally:
            bench.close()


def no_renewal() -> tuple[Lab, Tunnel]:
    raise MeasurementError("the tunnel broke down")


def rounds(bench: Bench, count: int, seconds: int) -> dict[str, dict[int, float]]:
    """Bit/s of each instrument in each round."""
    found: dict[str, dict[int, float]] = {name: {} for name in (IPERF3, *map(str, SLICES_S))}
    visits(bench).tcp(1.0)  # the first second in a fresh tunnel is slower
    for number in range(count):
        order = list(found)
        random.Random(number).shuffle(order)
        for name in order:
            found[name][number] = once(bench, name, seconds)
    return found


def once(bench: Bench, name: str, seconds: int) -> float:
    """One test of iperf3, or one slice of ``name`` seconds: bit/s at the receiver."""
    if name == IPERF3:
        return tcp(bench.lab, bench.address, seconds, 1, "forward", "random").measurements[0].value
    slice_ = visits(bench).tcp(float(name))
    return float(slice_["bytes"] * 8 / slice_["seconds"])


def row(name: str, found: Mapping[str, Mapping[int, float]]) -> list[str]:
    plain = found[IPERF3]
    rates = [f"{sum(plain.values()) / len(plain) / 1e6:.0f}"]
    lengths = [ratio(found[str(slice_s)], plain) for slice_s in SLICES_S]
    return [name, *rates, *lengths, ratio(found[str(SLICES_S[-1])], found[str(SLICES_S[0])])]


def ratio(ones: Mapping[int, float], others: Mapping[int, float]) -> str:
    """The paired ratio with its interval; marked where the interval excludes all that is near 1."""
    found = compare_blocks(ones, others)
    if found.ratio is None or found.low is None or found.high is None:
        return "–"
    far = " !" if found.low > 1 + NEAR or found.high < 1 - NEAR else ""
    return f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]{far}"


if __name__ == "__main__":
    main()
