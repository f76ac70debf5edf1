"""The builds that a call asks for: which VPNs they make, and for how long they are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from functools import partial

from runner.catalogue import load_vpn, load_vpn_as, metrics
from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.lab.software import builds
from runner.ranking.margins import parse_margins
from runner.vpn.plugin import Vpn, with_build

BUILDS_S = 300.0  # that two builds are compared for, where nothing says how long
BUILD_INSTANCE_S = 30.0  # of it to each tunnel: two builds of one VPN differ by less than two tunnels may


def with_builds(asked: AskedRun) -> AskedRun:
    """What is asked of builds: how they compare, with the time that they are compared for where nothing says how long.
    Raises UsageError for another lab than that of namespaces, and on a farm: a build is on this machine."""
    if asked.at_least and not asked.builds:
        raise UsageError("--at-least says how small a difference between builds must be visible: give --build, too")
    parse_margins(asked.at_least, metrics())
    if not asked.builds:
        return asked
    if asked.lab != "netns" or asked.farm:
        raise UsageError("--build needs the lab of namespaces on this machine: leave --lab and --farm out")
    asked = asked.with_changes(question=asked.question or "compare")
    if asked.deadline_s or asked.repetitions or asked.rounds or asked.duration_s:
        return asked
    decided = True if asked.until_significant is None else asked.until_significant
    return asked.with_changes(deadline_s=BUILDS_S, until_significant=decided)


def builds_of(asked: AskedRun, named: Set[str]) -> list[Vpn]:
    """The builds that are asked for. Of a VPN that has one only, the image's own comes first, unless ``named`` has
    it."""
    pairs = [load_build(text) for text in asked.builds]
    count = Counter(plugin.name for plugin, _ in pairs)
    found = list[Vpn]()
    for plugin, build in pairs:
        found += [plugin] * (count[plugin.name] == 1 and plugin.name not in named) + [build]
    return found


def load_build(text: str) -> tuple[Vpn, Vpn]:
    """What ``--build`` asks for: the plugin, and the same with the build, called VPN@NAME. Raises UsageError."""
    name, build_name, path = builds.parse_build(text)
    plugin = load_vpn(name)
    build = builds.read(plugin.name, build_name, path, [*plugin.software.tools], plugin.sign.programs)
    return plugin, load_vpn_as(name, partial(with_build, build=build))
