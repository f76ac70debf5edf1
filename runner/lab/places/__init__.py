"""Where labs are set up: on this machine (``netns``), on machines reached by ssh, or on Vagrant's VMs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runner.data.errors import UsageError, require_known
from runner.lab.names import LAB_FORMS
from runner.lab.node import LabNode
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab, check_machine, namespace_lab
from runner.lab.software.image import Image, open_image

if TYPE_CHECKING:
    from runner.lab.places.inventory import Device


class Rig(Protocol):
    """A checked place that can build the same lab repeatedly."""

    kind: str
    stands: int  # how many labs can be there at once; 0: as many as memory allows

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of its labs."""

    def image(self, name: str, say: Callable[[str], None] | None = None) -> Image:
        """The software of its nodes. Raises UsageError for one that it cannot have."""

    def lab(
        self,
        image: Image,
        gateway_image: Image | None = None,
        log: Callable[[str], object] | None = None,
        logs: Path | None = None,
    ) -> AbstractContextManager[Lab]:
        """A fresh lab, which is gone when the block ends; see ``runner.lab.shape.site_to_site.namespace_lab``."""

    def alone(self, image: Image, log: Callable[[str], object]) -> AbstractContextManager[LabNode]:
        """A node without a network, to make keys on."""


class NamespaceRig:
    """This machine as a ``Rig``."""

    kind = "netns"
    stands = 0
    sites = SITES

    def image(self, name: str, say: Callable[[str], None] | None = None) -> Image:
        """The image ``name``, built first where this machine has none."""
        return open_image(name, say=say)

    def lab(
        self,
        image: Image,
        gateway_image: Image | None = None,
        log: Callable[[str], object] | None = None,
        logs: Path | None = None,
    ) -> AbstractContextManager[Lab]:
        """A lab of namespaces, up as long as the context."""
        return namespace_lab(image, gateway_image, log, logs)

    @contextmanager
    def alone(self, image: Image, log: Callable[[str], object]) -> Iterator[LabNode]:
        """A node without a network, to make keys on."""
        node = NamespaceNode("ca", image.root, log)
        node.makes_keys = True
        try:
            node.wait_ready()
            yield node
        finally:
            node.stop()


def check_spec(spec: str) -> None:
    """Raise UsageError unless ``spec`` is a --lab that exists, its inventory or lab.yml included. Starts nothing."""
    kind, _, rest = spec.partition(":")
    if kind == "ssh" and rest:
        from runner.lab.places.inventory import read_inventory

        if device_of(spec) is None:
            read_inventory(Path(rest))
        return
    if kind == "site" and rest:
        from runner.lab.places.sites import read_sites

        read_sites(Path(rest))
        return
    require_known("lab", spec, LAB_FORMS.split(", "))
    if kind == "vagrant":
        from runner.lab.places.vagrant import lab_file

        lab_file()


def device_of(spec: str) -> Device | None:
    """The device that ``spec`` names where its inventory is that of a device by itself; None of every lab. Raises
    UsageError for an inventory with mistakes."""
    kind, _, rest = spec.partition(":")
    if kind != "ssh" or not rest:
        return None
    from runner.lab.places.inventory import read_device

    return read_device(Path(rest))


def check_uplinks(spec: str, uplinks: Sequence[str]) -> None:
    """Raise UsageError unless ``spec`` is a site lab whose inventory names these uplinks."""
    if uplinks and not spec.startswith("site:"):
        raise UsageError("an uplink is a line of a site lab, whose inventory names it: give --lab site:SITES.toml, too")
    from runner.lab.places.sites import read_sites

    for uplink in uplinks:
        read_sites(Path(spec.partition(":")[2]), uplink)


@contextmanager
def open_rig(
    spec: str,
    say: Callable[[str], None],
    limits: Mapping[str, Any] | None = None,
    uplink: str = "",
    *,
    confined: bool = False,
) -> Iterator[Rig]:
    """The rig that ``--lab`` names; ``say`` is told of what takes long. ``limits`` replace those of a site's inventory;
    ``uplink``: the one of its lines that is meant. ``confined``: root of a gateway on this machine, where something
    foreign will run, is to be no root of the machine.

    ``spec`` is checked (``check_spec``). Raises CannotRunHere where a lab cannot be set up; nothing is changed then.
    """
    kind, _, rest = spec.partition(":")
    if kind == "netns":
        check_machine()
        NamespaceNode.confined = confined
        yield NamespaceRig()
    elif device_of(spec):
        raise UsageError(
            f"{rest} names a device by itself, which is no lab. vpneval run devices --lab {spec} measures it"
        )
    elif kind == "ssh":
        from runner.lab.places.inventory import read_inventory
        from runner.lab.places.machines import ssh_rig

        with ssh_rig(read_inventory(Path(rest)), say=say) as rig:
            yield rig
    elif kind == "site":
        from runner.lab.places.site import site_rig
        from runner.lab.places.sites import read_sites

        sites = read_sites(Path(rest), uplink).model_copy(update=dict(limits or {}))
        with site_rig(sites, say=say) as rig:
            for note in rig.notes:
                say(note)
            try:
                yield rig
            finally:
                for sentence in rig.changed_by_others():
                    say(sentence)
    else:
        from runner.lab.places.vagrant import vagrant_rig

        with vagrant_rig(rest == "up", say) as rig:
            yield rig
