"""The factor ``gw2_cpu``: a slower second gateway, by a CPU quota, with a live probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from runner.data.errors import LabError, Unsupported
from runner.lab.node import groups, proc, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.vpn.plugin import Vpn

PERIOD_US = 20000  # of the CPU quota: short, so that no queue waits long; the kernel's least quota is 1000
GROUPS = Path("/sys/fs/cgroup")
Hold = Callable[[Lab], dict[str, str]]


def quota_refusal(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why gateway 2 cannot be slowed down here; None where it can, and where that is not asked for."""
    if "gw2_cpu" not in params:
        return None
    if vpn.dataplane == "kernel":
        return Unsupported(f"{vpn.title} works in the kernel: a CPU quota limits processes, not the kernel")
    if lab.kind != "netns":
        return Unsupported(f"vpneval cannot slow down the machines of a {lab.kind} lab: choose slower ones")
    why = no_quota()
    return Unsupported(why) if why else None


def no_quota() -> str:
    """Why no CPU quota can be set here; "" where it can (cgroups(7))."""
    try:
        with quota({"gw2_cpu": "0.5"}):
            return ""
    except OSError as error:
        return f"no CPU quota can be set here: {error.strerror}: {error.filename}"
    except LabError as error:
        return str(error)


@contextmanager
def quota(params: Mapping[str, str]) -> Iterator[Hold]:
    """A control group with gateway 2's share of one CPU, and what puts that gateway's processes into it.

    ``gw2_cpu``: the share, 0 to 1. Enter it before the lab, so that it goes after the lab's processes. Raises OSError
    where the groups are not ours to write, LabError where none of their hierarchies has the CPU.
    """
    if "gw2_cpu" not in params:
        yield lambda lab: {}
        return
    share = float(params["gw2_cpu"])
    group = groups.claim(_cpu_hierarchy(), "quota")  # several may stand at once
    folder = group.folder
    try:
        if (folder / "cpu.max").exists():  # version 2
            (folder / "cpu.max").write_text(f"{round(share * PERIOD_US)} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(round(share * PERIOD_US)))
        yield lambda lab: _hold(lab, folder, share)
    finally:
        with suppress(TimeoutError):
            wait_until(lambda: _remove_group(folder), "the control group empty", deadline_s=3)
        group.remove()


def _cpu_hierarchy() -> Path:
    for folder in (GROUPS, GROUPS / "unified"):
        controllers = folder / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text().split():
            if "cpu" not in (folder / "cgroup.subtree_control").read_text().split():
                (folder / "cgroup.subtree_control").write_text("+cpu")
            return folder
    if (GROUPS / "cpu" / "cpu.cfs_quota_us").exists() or (GROUPS / "cpu" / "cgroup.procs").exists():
        return GROUPS / "cpu"
    raise LabError(f"no CPU quota can be set here: no control group hierarchy under {GROUPS} has the CPU (cgroups(7))")


def _hold(lab: Lab, folder: Path, share: float) -> dict[str, str]:
    """Move every process of gateway 2 into the group; what was moved, for the evidence."""
    gateway = lab.gateway(lab.sites[1])
    names = []
    for _, pid in proc.of_nodes([gateway]):
        with suppress(OSError):  # gone meanwhile
            (folder / "cgroup.procs").write_text(f"{pid}")
            names.append(proc.name_of(pid))
    gateway.log(f"[{gateway.name}] # CPU quota of {share:.0%} of one core for {', '.join(names)}")
    return {"gw2_cpu": f"{share:.0%} of one core for {', '.join(sorted(names))}"}


def _remove_group(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
