"""What a VPN asks of its operator, counted from the plugin itself run on paper: nobody judges anything.

Set-up: files, lines, commands and secrets of a two-site tunnel (the OSLV paper's Table 1 gives asterisks). Modularity:
the ciphers that configuration alone gives (Table 2). Routing: who sets the routes (Table 3). Scalability: what changes
when the N-th site joins a full mesh (Table 5), by rendering it with and without. docs/operations.md defines each count.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from runner.data.errors import UsageError
from runner.data.levels import Params, tunnel_levels
from runner.data.metric import count
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.lab.node import Completed
from runner.lab.shape.site import Site, helper_site, peers_of
from runner.papers.tables import (
    AT,
    SIZES,
    printed_tables,
)
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn, level_refusal
from runner.vpn.recipe import NotedNode

PUBLIC = (".crt", ".pub")


class Draft(NotedNode):
    """A ``Node`` on paper that keeps its files apart from its commands."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.files: dict[str, str] = {}

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Keep the text under its path."""
        self.files[path] = text

    @property
    def routes(self) -> list[str]:
        """The commands that set a route."""
        return [line for line in self.lines if re.match(r"ip (-\S+ )*route (add|replace)\b", line)]


class TrustedDraft(Draft):
    """A draft in which each command has an output of its own: two secrets are equal only where one was given twice."""

    said = 0

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command; its output has a number that no other output has."""
        self.said += 1
        done = super().run(*argv, check=check, timeout=timeout, input=input)
        return replace(done, stdout=f"{done.stdout}{self.said} ")


@dataclass(frozen=True)
class Joining:
    """What changes in a full mesh when its last of ``sites`` sites joins. ``effort`` is the paper's: for the whole
    mesh, each site having joined at that price."""

    sites: int
    files: int
    lines: int
    routes: int
    keys: int
    commands: int

    @property
    def effort(self) -> int:
        """Files, routes and keys, times the number of sites."""
        return self.sites * (self.files + self.routes + self.keys)


@dataclass
class Setup:
    """A mesh on paper: each site's files and commands, and where the keys come from."""

    drafts: dict[str, Draft]
    ca: Draft
    secrets: dict[str, str] = field(default_factory=dict)


def operations(vpn: Vpn, params: Params) -> Measured:
    """All counts, at these tunnel levels. Raises UsageError for levels that the VPN does not have."""
    started = time.monotonic()
    if no := level_refusal(vpn, params):
        raise UsageError(f"{vpn.name}: {no.reason}")
    pair = on_paper(vpn, params, mesh(2))
    drafts = [*pair.drafts.values()]
    private = {mark for name, mark in pair.secrets.items() if not name.endswith(PUBLIC)}
    ciphers = by_configuration(vpn, params)
    setup = {
        "setup_files": sum(len(draft.files) for draft in drafts),
        "setup_lines": sum(len(lines(text)) for draft in drafts for text in draft.files.values()),
        "setup_commands": sum(len(draft.lines) for draft in [*drafts, pair.ca]),
        "setup_secrets": len(private),
    }
    printed = printed_tables(vpn.name)
    measured = Measured(
        [measurement(name, float(value), commands_are="gateways and key making") for name, value in setup.items()]
    )
    routes, by_whom = [route for draft in drafts for route in draft.routes], vpn.declared.abilities.routes
    measured.measurements += [
        measurement(
            "manual_routes",
            float(len(routes)),
            commands=routes,
            declared=by_whom,
            **printed["routing"],
        ),
        measurement(
            "cipher_choice",
            float(len(ciphers)),
            ciphers=ciphers,
            integrities=list(vpn.offers.integrities),
            compressions=list(vpn.offers.compressions),
            **printed["modularity"],
        ),
    ]
    measured.measurements[0].detail.update(printed["setup"])
    try:
        joined = {size: joining(vpn, params, size) for size in SIZES}
    except ValueError as refused:  # a plugin that makes tunnels of two ends only unpacks its one peer
        measured.attempt["inconclusive"] = {"scaling_effort": {"reason": f"no mesh of more than two sites: {refused}"}}
        measured.warnings.append(f"scaling_effort: the plugin makes no mesh of more than two sites ({refused})")
    else:
        counts = {str(size): {**vars(count), "effort": count.effort} for size, count in joined.items()}
        measured.measurements += [
            measurement("scaling_effort", float(joined[AT].effort), joining=counts, **printed["scalability"]),
            measurement("scaling_lines", float(joined[AT].lines), joining=counts),
        ]
    measured.measuring_s = time.monotonic() - started
    return measured


def mesh(count: int) -> tuple[Site, ...]:
    """``count`` sites on one WAN, numbered from 1. The first two are the lab's; the networks of the others keep clear
    of those that plugins take for tunnels (10.8.0.0/16 and the like)."""
    lans = {n: f"10.{n if n < 3 else 100 + n}.0" for n in range(1, count + 1)}
    return tuple(
        Site(n, f"gw{n}", f"192.168.0.{n}", "wan0", f"{lan}.0/24", f"{lan}.1", f"{lan}.2") for n, lan in lans.items()
    )


def on_paper(vpn: Vpn, params: Params, sites: Sequence[Site]) -> Setup:
    """Set the full mesh of ``sites`` up on paper. Secrets are placeholders, one line each; a secret that the plugin
    gives to several sites has one placeholder, that of its first name."""
    ca = TrustedDraft("a trusted machine")
    first: dict[str, str] = {}
    # Hexadecimal, one line, and different from the beginning, because some plugins cut a key to its length.
    secrets = {
        name: sha256(first.setdefault(text, name).encode()).hexdigest() for name, text in vpn.secrets(ca, sites).items()
    }
    ca.lines = [line for line in ca.lines if not line.startswith("cat ")]
    setup = Setup({}, ca, secrets)
    if vpn.beside:
        me, draft = helper_site(sites[0], vpn.beside), setup.drafts.setdefault(vpn.beside, Draft(vpn.beside))
        draft.files.update(vpn.render_beside(me, sites, params, secrets))
        vpn.start_beside(draft, me, sites, params)
    for site in reversed(sites):
        draft = setup.drafts[site.name] = Draft(site.name)
        peers = peers_of(site, sites)
        draft.files.update(vpn.render(site, peers, params, secrets))
        vpn.start(draft, site, peers, params)
    return setup


def joining(vpn: Vpn, params: Params, count: int) -> Joining:
    """The cost of the site that makes the mesh ``count`` sites large: the mesh with it compared with the mesh without.

    The last one joins, or the one before where the last is a hub: an operator would leave that where it is. Files and
    lines are counted where they are new or changed, at every site. A key is counted for each site that it has to be
    brought to, its own site's not.
    """
    sites = mesh(count)
    joins = sites[-2] if vpn.declared.abilities.hub else sites[-1]
    after = on_paper(vpn, params, sites)
    before = on_paper(vpn, params, [site for site in sites if site is not joins]) if count > 2 else Setup({}, Draft(""))
    files = changed = routes = commands = keys = 0
    for name, draft in after.drafts.items():
        old = before.drafts.get(name, Draft(name))
        for path in draft.files.keys() | old.files.keys():
            was, now = lines(old.files.get(path, "")), lines(draft.files.get(path, ""))
            if was != now:
                files += 1
                changed += sum(line[0] in "+-" for line in difflib.ndiff(was, now))
        routes += fresh(draft.routes, old.routes)
        commands += fresh(draft.lines, old.lines)
        keys += len(foreign_keys(draft, after.secrets) - foreign_keys(old, before.secrets))
    return Joining(count, files, changed, routes, keys, commands)


def lines(text: str) -> list[str]:
    """The lines that are not empty."""
    return [line for line in text.splitlines() if line.strip()]


def fresh(now: Sequence[str], before: Sequence[str]) -> int:
    """How many lines ``now`` has that ``before`` has not; a line that it has once more counts once."""
    return sum((Counter(now) - Counter(before)).values())


def foreign_keys(draft: Draft, secrets: Mapping[str, str]) -> set[str]:
    """The secrets and certificates in a site's files that were made elsewhere: a secret's first name tells its
    maker."""
    text = "\n".join(draft.files.values())
    made_by = {mark: name for name, mark in reversed([*secrets.items()])}
    return {name for mark, name in made_by.items() if mark[:24] in text and not name.startswith(f"{draft.name}.")}


def by_configuration(vpn: Vpn, params: Params) -> list[str]:
    """The ciphers that need only other words in a file or a command: those whose rendered set-ups differ."""
    by_text: dict[str, str] = {}
    for cipher in vpn.offers.ciphers:
        if cipher in ("none", "null"):
            continue
        for integrity in (params["integrity"], "aead", *vpn.offers.integrities):
            levels = {**params, "cipher": cipher, "integrity": integrity}
            if level_refusal(vpn, levels):
                continue
            try:
                setup = on_paper(vpn, levels, mesh(2))
            except KeyError:  # it has both, but no suite of them together
                continue
            text = json.dumps([[draft.files, draft.lines] for draft in setup.drafts.values()])
            by_text.setdefault(text, cipher)
            break
    return list(by_text.values())


class Operations(Whole):
    """Counts of what the plugin writes down."""

    name = "operations"
    metrics = (
        count(
            name="setup_files",
            title="Files of a tunnel",
            definition="The number of files that the two gateways of a tunnel need, including keys and certificates, "
            "and those of what the VPN needs beside them.",
            source="OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
        ),
        count(
            name="setup_lines",
            title="Lines of a tunnel",
            short="Lines",
            definition="The number of lines in those files that are not empty. A key or certificate counts as one "
            "line.",
            source="OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
        ),
        count(
            name="setup_commands",
            title="Commands of a tunnel",
            short="Cmds",
            definition="The number of commands that set up a tunnel between two sites: those on both gateways, on what "
            "the VPN needs beside them, and where the keys are made. Files are not counted.",
            source="OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
        ),
        count(
            name="setup_secrets",
            title="Secrets of a tunnel",
            short="Keys",
            definition="The number of private keys, shared keys and passwords of a tunnel between two sites.",
            source="OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
        ),
        count(
            name="manual_routes",
            title="Routes set by hand",
            definition="The number of commands that set a route while a tunnel between two sites is set up. A route "
            "in a configuration file is not counted.",
            source="OSLV paper, Table 3 (routing), counted; docs/operations.md",
        ),
        count(
            name="cipher_choice",
            title="Ciphers by configuration",
            short="Ciph.",
            better="higher",
            definition="The number of ciphers of the sweep that the operator can choose by changing words in a file "
            "or a command, without another program.",
            source="OSLV paper, Table 2 (modularity), counted; docs/operations.md",
        ),
        count(
            name="scaling_effort",
            title="Effort for a mesh of ten",
            short="Mesh",
            definition="The effort when the N-th site joins a full mesh, for N = 10: N times (files touched + routes "
            "set + keys carried).",
            source="OSLV paper, Table 5 (scalability), rendered and counted; docs/operations.md",
        ),
        count(
            name="scaling_lines",
            title="Lines for the tenth site",
            definition="The number of lines that are added, changed or removed at all sites when the tenth site joins "
            "a full mesh.",
            source="OSLV paper, Table 5 (scalability), rendered and counted; docs/operations.md",
        ),
    )
    needs_tunnel = False

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 0.1

    def once(self, bench: Bench | None, asked: Asked) -> Measured:
        return operations(asked.vpn, tunnel_levels(asked.params))
