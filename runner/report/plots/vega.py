"""Vega's own script for the page, and pictures of the same plots: both from the pinned vl-convert-python."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from runner.data.cache import cache_dir
from runner.data.guest import inside
from runner.data.streams import printable

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.json"
VEGA_LITE = "6.4"
# In a guest kernel nothing is bundled: vl-convert's engine is V8, which is not for User Mode Linux.
ABSENT = """window.vegaEmbed = () => Promise.reject(new Error(
  "this page was made in a guest kernel, without Vega; make it again: vpneval report DIR --write"));"""
Spec = dict[str, Any]


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed`` and needs nothing else.

    Bundling takes some seconds, so the result is kept beside the images, under vl-convert's version. Where that folder
    cannot be written, the script is bundled each time. A guest kernel only uses a script that was kept."""
    kept = cache_dir() / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        if inside():
            return ABSENT
        import vl_convert

        made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
    with suppress(OSError):  # a read-only home: the page is only slower to make
        _keep(kept, made)
    return made


def svg(spec: Spec) -> str:
    """The plot as a picture, on white. Raises ValueError for a specification that Vega-Lite refuses."""
    import vl_convert

    return vl_convert.vegalite_to_svg(printable(spec) | {"background": "white"}, VEGA_LITE)


def png(spec: Spec) -> bytes:
    """The plot as PNG with twice as many pixels as units, for slides."""
    import vl_convert

    return vl_convert.vegalite_to_png(printable(spec) | {"background": "white"}, VEGA_LITE, scale=2)


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)  # complete or not at all, also where another process does the same
