"""The parts of every page: the page itself, and the blocks of its sections. Jinja2 escapes every text
(decision 0035); Markup in this file is escaped already.

The scripts are part of the page, and its content security policy names them by their digests: no other script runs,
whatever a run folder holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from runner.data.streams import visible_text
from runner.design.blocks import Block, Heading, Paragraph, cell
from runner.report.forms.explore import script_json
from runner.report.plots.vega import script as vega

TEMPLATES = ("base.html.j2", "report.html.j2", "blocks.html.j2", "parts.html.j2")


def page(title: str, *sections: Sequence[Block]) -> str:
    """A page that consists of sections."""
    return fill("base.html.j2", title, sections=map(blocks_html, sections))


def titled_page(blocks: Sequence[Block]) -> str:
    """A page of blocks, whose first one is its title."""
    title, *others = blocks
    assert isinstance(title, Heading)
    return page(title.words, others)


def fill(template: str, title: str, *more: str | Path, **context: Any) -> str:
    """A page from a template that extends base.html.j2. Every text of ``context`` is escaped in it. The style, Vega,
    plots.js and the scripts in ``more`` are part of the page: a path, or the name of one beside this file."""
    scripts = [vega(), *map(_script, ("plots.js", *more))]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = Markup(f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}")
    frame = {"title": title, "policy": policy, "scripts": map(Script, scripts), "style": resource("page.css")}
    return _environment().get_template(template).render(frame | context)


def macros(template: Path) -> Any:
    """The macros of a question's own template."""
    return _environment().from_string(template.read_text(encoding="utf-8")).module


def _script(script: str | Path) -> str:
    return resource(script) if isinstance(script, str) else script.read_text(encoding="utf-8")


class Script(Markup):
    """A script of the page, which the page's policy names by its digest: byte by byte as it is."""


def _readable(value: Any) -> Any:
    """What an expression of a template gives, with control characters as text."""
    if isinstance(value, Script) or not isinstance(value, str):
        return value
    return Markup(visible_text(value)) if isinstance(value, Markup) else visible_text(value)


@cache
def _environment() -> Environment:
    loader = DictLoader({name: resource(name) for name in TEMPLATES})
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"cell": cell, "kind": lambda block: type(block).__name__}
    made.tests["strong"] = lambda block: isinstance(block, Paragraph) and block.kind == "strong"
    made.filters["blocks"] = blocks_html
    made.filters["json"] = lambda data: Markup(script_json(data))
    return made


def resource(name: str) -> str:
    """The text of a file beside this one: a script, a style sheet, a template of the page."""
    return resources.files("runner.report.forms").joinpath(name).read_text(encoding="utf-8")


def blocks_html(blocks: Sequence[Block]) -> Markup:
    """Blocks as HTML. If they begin with a heading, they are a section of the page."""
    if not blocks:
        return Markup("")
    heading, others = (blocks[0], blocks[1:]) if isinstance(blocks[0], Heading) else (None, blocks)
    return Markup(_environment().get_template("blocks.html.j2").render(heading=heading, blocks=others))
