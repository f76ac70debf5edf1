"""``vpneval image``: build the lab image, and check it."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import begin, tell
from runner.cli.output import out
from runner.data.errors import require_known
from runner.lab.names import DEFAULT_IMAGE, SUITES


def image(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="trixie or bookworm; default: trixie")] = DEFAULT_IMAGE,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="remove the image and build it again")] = False,
    layer: Annotated[
        str, typer.Option("--layer", metavar="NAME", help="also build this layer for it; vagrant/layers/ has them")
    ] = "",
) -> None:
    """Build the lab image and check it. `run` builds a missing image, too."""
    begin(f"vpneval checks the lab image {name}.")
    from runner.lab.places import rootless
    from runner.lab.software import image as images
    from runner.lab.software import layers

    require_known("image", name, list(SUITES))
    if layer:
        require_known("layer", layer, layers.names())
    rootless.enter("netns")
    if rebuild:
        images.remove(name)
    built = images.open_image(name, say=tell)
    out.print(f"{name}: {built.root} ({len(built.packages)} packages)", highlight=False, soft_wrap=True)
    if layer:
        built_layer = layers.build(layer, name, tell)
        out.print(f"{layer}: {built_layer}", highlight=False, soft_wrap=True)
