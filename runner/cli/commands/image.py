"""``vpneval image``: build the lab image, and check it."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import begin, tell
from runner.data.errors import require_known
from runner.data.files import is_there
from runner.lab.names import DEFAULT_IMAGE, SUITES


def image(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="trixie or bookworm; default: trixie")] = DEFAULT_IMAGE,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="remove the image and build it again")] = False,
    mirror: Annotated[
        str, typer.Option("--mirror", metavar="URL", help="the Debian mirror to build it from, or a sources.list(5)")
    ] = "",
    layer: Annotated[
        str, typer.Option("--layer", metavar="NAME", help="also build this layer for it; vagrant/layers/ has them")
    ] = "",
) -> None:
    """Build the lab image and check it. `run` builds a missing image, too."""
    begin(f"vpneval checks the lab image {name}.")
    from runner.cli.output import out
    from runner.lab.places import rootless
    from runner.lab.software import image as images
    from runner.lab.software import layers

    require_known("image", name, list(SUITES))
    if layer:
        require_known("layer", layer, layers.names())
    if mirror:
        images.check_mirror(mirror)
        if not rebuild and is_there(images.locate(name).with_suffix(".json")):
            tell(f"The image {name} is there already, so nothing is taken from {mirror}. --rebuild builds it anew.")
    rootless.enter("netns")
    if rebuild:
        images.remove(name)
    built = images.open_image(name, say=tell, mirror=mirror)
    out.print(f"{name}: {built.root} ({len(built.packages)} packages)", highlight=False, soft_wrap=True)
    if layer:
        built_layer = layers.build(layer, name, tell)
        out.print(f"{layer}: {built_layer}", highlight=False, soft_wrap=True)
