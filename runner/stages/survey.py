"""A run with ``--rest``: what this machine can run, what the rest needs, what nothing here runs, and the time.

Everything is probed first and told in one place; then the run begins without a question.
"""

from __future__ import annotations

import io
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Required

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from runner.catalogue import load_run, load_vpn
from runner.data.asked import AskedRun
from runner.data.errors import CannotRunHere, VpnevalError
from runner.data.invocation import command
from runner.data.levels import BASELINE
from runner.data.numbers import roughly
from runner.data.own_program import again
from runner.data.streams import output_to
from runner.lab import kernels
from runner.lab.kernels.boot import Kernel, Say, run_in
from runner.lab.kernels.kvm import kvm_runs_guests
from runner.lab.node.lines import Bounded, json_of
from runner.lab.places import open_rig
from runner.sweep.request import Request, resolve
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Vpn

TITLES = {"uml": "User Mode Linux", "qemu:trixie": "Debian 13 in QEMU", "qemu:bookworm": "Debian 12 in QEMU"}
REST_S = 130  # that the run under the rest takes
SLOWER = 30  # times, at most: a guest that is emulated (docs/kernels.md)


class GuestCheck(TypedDict, total=False):
    """A line of ``vpneval doctor --json``."""

    what: Required[str]
    level: Required[str]
    says: Required[str]
    vpn: str
    configuration: str


CHECKS = TypeAdapter(list[GuestCheck])
Answers = Mapping[str, str]  # a VPN's name -> why it cannot run there; empty where it can


def survey(request: Request, rest: Kernel, install: bool, say: Say) -> Kernel | None:
    """Probe this machine's kernel and ``rest``, and tell ``say`` what will run where and for how long.

    ``install``: install the Debian packages that ``rest`` needs. Returns the kernel of the second run: ``rest``, or
    what takes its place where it does not start; None where it has nothing to add.
    """
    here, vpns = ask_here(request), [vpn for vpn in request.vpns if vpn.name != BASELINE]
    lacking = [vpn for vpn in vpns if here[vpn.name] and vpn.dataplane == "kernel"]
    other = [vpn for vpn in vpns if here[vpn.name] and vpn.dataplane != "kernel"]
    say(f"This machine (Linux {platform.release()}) runs: {_names(vpn for vpn in vpns if not here[vpn.name])}.")
    for vpn in other:
        say(f"This machine cannot run {vpn.name}: {here[vpn.name]}")
    here_s = max(60, request.asked.deadline_s or request.expected_time()[1])
    if not lacking:
        say(f"This kernel has them all. The run takes at most {roughly(here_s)}.")
        return None
    say(f"Its kernel lacks what these VPNs need: {_names(lacking)}.")
    rest, there = _ask_there(request, rest, install, say)
    added = [vpn for vpn in lacking if not there.get(vpn.name, "it was not asked")]
    if added:
        say(f"{TITLES[rest.name]} runs: {_names(added)}. A second run measures them, on a scale of its own.")
    for vpn in lacking:
        if vpn not in added:
            say(f"Nothing here runs {vpn.name}: {there.get(vpn.name) or here[vpn.name]}")
    if len(added) < len(lacking):
        say(what_would(vpns, request, rest))
    more = f", and at most {roughly(REST_S)} more under {TITLES[rest.name]}" if added else ""
    say(f"The run takes at most {roughly(here_s)} on this machine's kernel{more}.")
    return rest if added else None


def of_rest(request: Request, lacking: Sequence[str]) -> AskedRun:
    """What the second run is asked for: the same of the VPNs that the first kernel lacks, in less time."""
    files = {load_vpn(word).name: word for word in request.asked.vpns if word.endswith(".py")}
    return request.asked.with_changes(
        vpns=[files.get(vpn, vpn) for vpn in lacking],
        rounds=None,  # the deadline says how many there are
        deadline_s=REST_S,
        until_significant=request.until_significant,
    )


def lacks(folder: Path) -> list[str]:
    """The VPNs of a run folder that have a data path in the kernel, and only unsupported trials."""
    run, trials = load_run(folder)
    kernels_own = [name for name, vpn in run.vpns.items() if vpn.dataplane == "kernel"]
    statuses = {name: {trial.status for trial in trials if trial.vpn == name} for name in kernels_own}
    return [name for name in kernels_own if statuses[name] == {"unsupported"}]


def _names(vpns: Iterable[Vpn]) -> str:
    return ", ".join(vpn.name for vpn in vpns) or "none of these VPNs"


def ask_here(request: Request) -> Answers:
    """Ask every VPN's own probe in a lab on this machine's kernel. Raises CannotRunHere where there can be no lab."""
    with ExitStack() as stack:
        rig = stack.enter_context(open_rig(request.asked.lab, lambda text: None))
        logs = Path(stack.enter_context(TemporaryDirectory()))
        lab = stack.enter_context(rig.lab(rig.image(request.asked.image), logs=logs))
        reasons = {}
        for vpn in request.vpns:
            no = vpn_refusal(lab, vpn, vpn.comparable)
            reasons[vpn.name] = no.reason if no else ""
        return reasons


def _ask_there(request: Request, rest: Kernel, install: bool, say: Say) -> tuple[Kernel, Answers]:
    """Ask every VPN's own probe under ``rest``, whose packages are installed first if that is allowed. Where ``rest``
    does not start, ask under its replacement. Returns the kernel and its answers; none where none starts."""
    for kernel in (rest, *_instead_of(rest)):
        if kernel is not rest:
            say(f"vpneval takes {TITLES[kernel.name]} in its place.")
        try:
            if install and (lacks := kernel.missing_packages()):
                say(f"vpneval installs what {TITLES[kernel.name]} needs: {', '.join(lacks)}. It upgrades nothing.")
                apt_install(lacks)
            if install:
                Path("/lib/modules").mkdir(exist_ok=True)
            kernel.prepare(say)
            return kernel, ask_under(kernel, request)
        except VpnevalError as lack:
            say(f"{TITLES[kernel.name]} cannot be used: {lack}")
        if kernel.missing_packages() and not install:  # to install them is better than what takes its place
            break
    return rest, {}


def _instead_of(rest: Kernel) -> list[Kernel]:
    """The replacement for ``rest``: Debian 13 in QEMU, where this machine has all that it needs."""
    qemu = kernels.Qemu("trixie")
    return [qemu] if rest.name == "uml" and not qemu.commands() else []


def ask_under(kernel: Kernel, request: Request) -> Answers:
    """Ask every VPN's own probe under a guest kernel. Raises CannotRunHere where the guest does not answer."""
    names = ",".join(request.asked.vpns or (vpn.name for vpn in request.vpns))  # a plugin's file by its path
    argv = again("doctor", "--json", "--image", request.asked.image, "--vpn", names)
    printed = Bounded()
    with output_to(io.TextIOWrapper(printed, write_through=True)) as _:
        run_in(kernel, argv)
        text = printed.getvalue().decode()
    return answers(text)


def answers(text: str) -> Answers:
    """Read what ``vpneval doctor --json`` printed about comparable configurations. Raises CannotRunHere where there is
    nothing."""
    try:
        checks = CHECKS.validate_python(json_of(text))
    except ValueError:
        raise CannotRunHere("the guest did not say which VPNs it can run") from None
    reasons = {}
    for check in checks:
        if check.get("configuration") == "comparable":
            reasons[check.get("vpn", "")] = "" if check["level"] == "ok" else check["says"]
    if not reasons:
        wrong = [f"{check['what']}: {check['says']}" for check in checks if check["level"] == "error"]
        raise CannotRunHere("; ".join(wrong) or "the guest did not say which VPNs it can run")
    return reasons


def what_would(vpns: Sequence[Vpn], request: Request, rest: Kernel) -> str:
    """What could rank ``vpns``, some of which run neither under this machine's kernel nor under ``rest``, and its
    cost."""
    if rest.name.startswith("qemu"):
        return "Another machine would, or virtual machines: see docs/labs.md and docs/vagrant.md."
    commands = " && ".join(kernels.Qemu("trixie").commands())
    first = f" It needs what this machine lacks; get it with: {commands}." if commands else ""
    kvm = "has KVM" if kvm_runs_guests() else "has no KVM that runs a guest"
    asked = AskedRun(
        experiments=request.asked.experiments,
        vpns=request.asked.vpns or [vpn.name for vpn in vpns],
        profile=request.profile.name,
        repetitions=1,
    )
    once = resolve(asked)
    minutes = math.ceil(SLOWER * once.expected_time()[1] / 60)
    emulated = asked.with_changes(kernel="qemu", deadline_s=60 * minutes, repetitions=None)
    return (
        f"Debian's own kernel in QEMU may, with all of them in one run: vpneval run {command(emulated)}. This takes at "
        f"most {minutes} minutes, because without KVM everything in it takes 10 to {SLOWER} times as long; this "
        f"machine {kvm}.{first}"
    )


def apt_install(packages: Sequence[str]) -> None:
    """Install Debian packages with apt-get(8), and upgrade nothing. Raises CannotRunHere where that cannot be."""
    _apt("update")
    options = ("--yes", "--no-install-recommends", "--no-upgrade")
    if upgraded := upgrades(_apt("install", "--simulate", *options, *packages)):
        raise CannotRunHere(
            f"installing {', '.join(packages)} would upgrade {', '.join(upgraded)}; "
            f"if you agree: apt-get install {' '.join(packages)}"
        )
    _apt("install", *options, *packages)


def upgrades(simulated: str) -> list[str]:
    """The packages that ``apt-get --simulate`` would replace by another version: ``Inst NAME [OLD] (NEW …)``."""
    return re.findall(r"^Inst (\S+) \[", simulated, re.MULTILINE)


def _apt(*words: str) -> str:
    argv = ["apt-get", "--quiet", *words]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise CannotRunHere("this machine has no apt-get: install the packages by hand") from None
    if done.returncode != 0:
        raise CannotRunHere(f"{' '.join(argv)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
