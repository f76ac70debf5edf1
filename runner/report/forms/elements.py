"""What every page is made of: the page itself, tables, row heads, links into the run folder, plots. Jinja2 escapes
every text (docs/decisions/0035); what is Markup here has been escaped already.

The scripts stand in the page, and the content security policy names them by their digests: nothing else runs, whatever
a run folder holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from runner.report.forms.explore import script_json
from runner.report.plots.plotting import Plot
from runner.report.plots.vega import script as vega
from runner.report.sections import Section, tone

TEMPLATES = ("base.html.j2", "report.html.j2", "section.html.j2")


def page(title: str, body: str, *more: str) -> str:
    """A page of its own, the style, Vega, plots.js and the scripts named in ``more`` within it. ``title`` is text,
    ``body`` HTML."""
    return fill("base.html.j2", title, *more, body=Markup(body))


def fill(template: str, title: str, *more: str, **context: Any) -> str:
    """A page from a template, which extends base.html.j2; every text of ``context`` is escaped in it."""
    scripts = [vega(), *map(resource, ("plots.js", *more))]
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = Markup(f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}")
    frame = {"title": title, "policy": policy, "scripts": scripts, "style": resource("page.css")}
    return _environment().get_template(template).render(frame | context)


@cache
def _environment() -> Environment:
    loader = DictLoader({name: resource(name) for name in TEMPLATES})
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def resource(name: str) -> str:
    """The text of a file beside this one: a script, a style sheet, a template of the page."""
    return resources.files("runner.report.forms").joinpath(name).read_text(encoding="utf-8")


def section_html(one: Section | None, experiments: Mapping[str, str] | None = None) -> Markup:
    """A section of the page; ``experiments``: name -> the id of its section."""
    if one is None:
        return Markup("")
    made = _environment().get_template("section.html.j2")
    return Markup(made.render(one=one, experiments=experiments or {}, tone=tone, link=link_html))


def figure(plot: Plot) -> Markup:
    """A plot that plots.js draws; its label says what it shows, and the tables have its numbers."""
    return Markup(
        '<figure><figcaption>{}</figcaption><div class="plot" role="img" aria-label="{}"></div>'
        '<script type="application/json">{}</script></figure>'
    ).format(plot.title, plot.alt, Markup(script_json(plot.spec)))


def link_html(path: str, words: str) -> Markup:
    """A link into the run folder, whatever the path says."""
    return Markup('<a href="./{}">{}</a>').format(quote(path), words)


def row_head(vpn: str, levels: str, vpn_class: str = "", levels_class: str = "") -> Markup:
    """The row's name for eye and screen reader: the VPN, and its levels below it."""
    small = Markup('<small class="{}">{}</small>').format(levels_class, levels) if levels else ""
    return Markup('<th scope="row" class="{}">{}{}</th>').format(vpn_class, vpn, small)


def cells_html(values: Sequence[str], numbers_from: int = 99) -> Markup:
    """Escaped ``td`` elements; from the index ``numbers_from`` on they are set as numbers."""
    return Markup("").join(
        Markup("<td{}>{}</td>").format(Markup(" class=number") if index >= numbers_from else "", value)
        for index, value in enumerate(values)
    )


def table_html(
    caption: str,
    head: Sequence[str],
    rows: Sequence[str],
    note: str = "",
    numbers: Sequence[int] = (),
    name: str = "",
    links: Mapping[str, str] | None = None,
) -> Markup:
    """A table in a box of its own that scrolls on a phone. ``rows`` are HTML; the rest is text. ``name``: its id;
    ``links``: heads -> where they lead to."""
    small = Markup(" <small>{}</small>").format(note) if note else ""
    heads = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(
            Markup(" class=number") if index in numbers else "", _head(words, links or {})
        )
        for index, words in enumerate(head)
    )
    called = Markup(' id="{}"').format(name) if name else ""
    body = Markup("").join(Markup("<tr>{}</tr>\n").format(Markup(row)) for row in rows)
    return Markup(
        '<div class="scroll"{} tabindex="0" role="group" aria-label="{}"><table>'
        "<caption>{}{}</caption><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table></div>"
    ).format(called, caption, caption, small, heads, body)


def _head(words: str, links: Mapping[str, str]) -> Markup:
    return Markup('<a href="{}">{}</a>').format(links[words], words) if words in links else escape(words)
