"""A run that is asked for is checked, played where it is to be, and reported."""

from __future__ import annotations

from collections.abc import Callable

from runner.cli.ending import measure_and_report
from runner.cli.options import Shown, tell
from runner.data.asked import AskedRun
from runner.data.errors import CannotRunHere
from runner.lab.kernels.boot import Kernel
from runner.lab.names import SUITES
from runner.lab.places import rootless
from runner.lab.software import layers
from runner.stages.guests import prepare
from runner.sweep.request import Request, resolve


def measure(
    asked: AskedRun,
    shown: Shown,
    rest: Kernel | None = None,
    install: bool = False,
) -> int:
    """Measure what is asked for, and show the report; the exit code.

    ``rest``: the kernel that afterwards measures what this one lacks; ``install``: the packages that it needs may be
    installed, and the VPNs' layers built.
    """
    if asked.farm:
        from runner.stages.farm import FarmAsked

        FarmAsked(asked)
        return measure_and_report(resolve(asked), shown)
    request = resolve(asked)
    rootless.enter(asked.lab)
    if install:
        build_layers(request, shown.say)
    if len(request.uplinks) > 1:
        from runner.cli.several import run_on_uplinks

        return run_on_uplinks(request, shown)
    if rest:
        from runner.cli.several import run_with_rest

        return run_with_rest(rest, request, shown, install)
    if any(request.kernels):
        prepare(request, shown.say)
    if len(request.kernels) > 1:
        from runner.cli.several import run_under

        return run_under(request, shown)
    return measure_and_report(request, shown)


def build_layers(request: Request, say: Callable[[str], None]) -> None:
    """Build the layers of the VPNs that are asked for, unless they are there. Where one cannot be built, that is told,
    and its VPN is unsupported."""
    suites = [name for name in request.asked.gateway_images or [request.asked.image] if name in SUITES]
    for name in sorted({vpn.software.layer for vpn in request.vpns} - {""}):
        for suite in suites:
            try:
                layers.build(name, suite, say)
            except CannotRunHere as lack:
                tell(f"vpneval: {lack}")
