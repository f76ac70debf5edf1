"""Vega's own script for the page, and pictures of the same plots: both from the pinned vl-convert-python."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from runner.data.cache import cache_dir
from runner.data.errors import UsageError
from runner.data.files import open_to_read
from runner.data.guest import guest_name
from runner.data.streams import visible_text

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.json"
VEGA_LITE = "6.4"
# In a guest kernel nothing is bundled: vl-convert's engine is V8, which is not for User Mode Linux.
ABSENT = """window.vegaEmbed = () => Promise.reject(new Error(
  "this page was made in a guest kernel, without Vega; make it again: vpneval report DIR --write"));"""
Spec = dict[str, Any]


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed`` and needs nothing else.

    Bundling takes some seconds, so the result is kept beside the images, under vl-convert's version and its own digest.
    Where that folder cannot be written, the script is bundled each time. A guest kernel only uses a script that was
    kept. Each page runs the script: one that somebody else may have written, or that has changed, is not used."""
    folder, name = cache_dir(), f"vega-{version('vl-convert-python')}-{VEGA_LITE}"
    for kept in sorted(folder.glob(f"{name}-*.js")):
        if (text := _trusted_script(kept)) is not None:
            return text
    if guest_name():
        return ABSENT
    import vl_convert

    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
    with suppress(OSError):  # a read-only home: the page is only slower to make
        _keep(folder / f"{name}-{_digest(made.encode())}.js", made)
    return made


def _trusted_script(path: Path) -> str | None:
    """The text of a script that only this user or root can have written, and that is what its name says; else None. In
    a guest kernel, whose root may be an ordinary user of the machine, the folder's owner counts as well."""
    with suppress(OSError, UsageError, UnicodeDecodeError):
        with open_to_read(path) as file:
            about, content = os.fstat(file.fileno()), file.read()
        owners = {0, os.geteuid(), *([path.parent.stat().st_uid] if guest_name() else [])}
        private = about.st_uid in owners and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if private and not path.is_symlink() and path.stem.endswith(f"-{_digest(content)}"):
            return content.decode()
    return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def drawable(value: Any) -> Any:
    """A specification whose texts Vega draws as they are: on one line, control characters as text, and another sign
    for a backslash: Vega-Lite writes them into its expressions."""
    if isinstance(value, str):
        return visible_text(re.sub(r"[\t\r\n]+", " ", value)).replace("\\", "\u29f9")
    if isinstance(value, list | tuple):
        return [drawable(inner) for inner in value]
    if isinstance(value, dict):
        return {drawable(name): drawable(inner) for name, inner in value.items()}
    return value


def svg(spec: Spec) -> str:
    """The plot as a picture, on white. Raises ValueError for a specification that Vega-Lite refuses."""
    import vl_convert

    return vl_convert.vegalite_to_svg(drawable(spec) | {"background": "white"}, VEGA_LITE)


def png(spec: Spec) -> bytes:
    """The plot as PNG with twice as many pixels as units, for slides."""
    import vl_convert

    return vl_convert.vegalite_to_png(drawable(spec) | {"background": "white"}, VEGA_LITE, scale=2)


def pdf(spec: Spec) -> bytes:
    """The plot as PDF, for LaTeX, which includes no SVG."""
    import vl_convert

    return vl_convert.vegalite_to_pdf(drawable(spec) | {"background": "white"}, VEGA_LITE)


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(partial, 0o644)  # mkstemp makes it private
    os.replace(partial, path)  # complete or not at all, also where another process does the same
