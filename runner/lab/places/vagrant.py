"""The VMs of the Vagrantfile as machines of an SSH lab: found with ``vagrant ssh-config``, their ports by MAC."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from runner.data.errors import CannotRunHere
from runner.lab.places.inventory import Inventory
from runner.lab.places.labfile import LabFile, read_lab_file
from runner.lab.places.machines import SshRig, ssh_rig
from runner.lab.places.private import private_folder

HOME = Path(__file__).resolve().parents[3]  # the project's Vagrantfile is the fallback
UP_WITHIN_S = 1800.0  # a first `up` fetches the box and provisions it


def folder_of_vagrantfile() -> Path:
    """Where the Vagrantfile is: here, else in the project. Raises CannotRunHere."""
    for folder in (Path.cwd(), HOME):
        if (folder / "Vagrantfile").exists():
            return folder
    raise CannotRunHere(f"--lab vagrant: there is no Vagrantfile in {Path.cwd()}. Go to the project's folder")


def lab_file() -> LabFile:
    """The lab.yml that Vagrant will take. Raises CannotRunHere, and UsageError for a mistake in it."""
    folder = folder_of_vagrantfile()
    return read_lab_file(folder / os.environ.get("VPNEVAL_LAB_YML", "vagrant/lab.yml"))


def inventory_of(lab: LabFile, config: Path) -> Inventory:
    """The inventory of the VMs, given the file that ``vagrant ssh-config`` wrote."""
    machines: dict[str, dict[str, Any]] = {
        name: {"address": name, "config": config, **macs} for name, macs in lab.macs().items()
    }
    return Inventory.model_validate(machines)


@contextmanager
def vagrant_rig(up: bool, say: Callable[[str], None]) -> Iterator[SshRig]:
    """The VMs, started first if ``up``. They are left running: ``vagrant destroy`` is the user's.

    Raises UsageError for a mistake in lab.yml, and CannotRunHere where Vagrant is missing or the VMs are not up, with
    the command that helps.
    """
    lab = lab_file()
    if shutil.which("vagrant") is None:
        raise CannotRunHere("vagrant is missing; get it with: apt-get install vagrant vagrant-libvirt")
    folder = folder_of_vagrantfile()
    if up:
        say(f"vagrant up in {folder}")
        _vagrant(folder, "up", "--parallel", timeout=UP_WITHIN_S)
    try:
        config = _vagrant(folder, "ssh-config", timeout=300)
    except CannotRunHere as down:
        again = f"start them with: vagrant up (in {folder}), or let the runner do it: --lab vagrant:up"
        raise CannotRunHere(f"not all virtual machines are up; {again}. {down}") from down
    with private_folder() as private:
        file = private / "ssh-config"
        file.write_text(config)
        with ssh_rig(inventory_of(lab, file), "vagrant", say) as rig:
            for name, connection in rig.connections.items():
                connection.diagnose = partial(_state, folder, name)
            yield rig


def _state(folder: Path, name: str) -> str:
    """The state that Vagrant reports of a VM that does not answer."""
    try:
        output = _vagrant(folder, "status", name, "--machine-readable", timeout=120)
    except CannotRunHere as worse:
        return str(worse)
    state = re.search(r"^\d+,[^,\n]*,state,(\S+)$", output, re.MULTILINE)
    return f"vagrant status says: {state[1] if state else 'nothing'}"


def _vagrant(folder: Path, *argv: str, timeout: float) -> str:
    """The standard output of vagrant. Raises CannotRunHere with its error message."""
    try:
        done = subprocess.run(
            ["vagrant", *argv], cwd=folder, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise CannotRunHere(f"vagrant {argv[0]} did not end within {timeout:g} s") from late
    if done.returncode != 0:
        complaint = " ".join((done.stderr or done.stdout).split())[-600:]
        raise CannotRunHere(f"vagrant {argv[0]} says: {complaint}")
    return done.stdout
