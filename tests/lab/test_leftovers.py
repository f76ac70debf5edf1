"""The contract of tests/contract.py on the namespace lab, and its own control: what a lab leaves behind breaks it."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from tests.contract import CONTRACT, contract, this_machine


class Leaving(NamespaceRig):
    """A lab that leaves a process behind."""

    def __init__(self) -> None:
        self.left: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def lab(
        self,
        image: Image,
        gateway_image: Image | None = None,
        log: Callable[[str], object] | None = None,
        logs: Path | None = None,
    ) -> Iterator[Lab]:
        with super().lab(image, gateway_image, log, logs) as up:
            yield up
        self.left.append(subprocess.Popen(["sleep", "60"]))


# In the gate test_contract.py holds it, for every plugin.
@pytest.mark.parametrize("name", CONTRACT)
def test_a_plugin_keeps_the_contract_here(image: Image, tmp_path: Path, name: str) -> None:
    contract(NamespaceRig(), name, tmp_path, this_machine)


@pytest.mark.smoke
def test_what_a_lab_leaves_breaks_the_contract(image: Image, tmp_path: Path) -> None:
    contract(NamespaceRig(), "none", tmp_path, this_machine)
    rig = Leaving()
    try:
        with pytest.raises(AssertionError, match=r"none has left something: .*processes"):
            contract(rig, "none", tmp_path, this_machine, gone_within_s=0.2)
    finally:
        for process in rig.left:
            process.kill()
            process.wait()
    assert rig.left
