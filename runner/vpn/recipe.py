"""Writes a recipe: runs a plugin on nodes that only note its files and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.node import Completed
from runner.lab.shape.site import Site, helper_site, peers_of, with_behind
from runner.vpn.plugin import Secrets, Vpn, level_refusal

# Commands by which a plugin only asks; a recipe leaves them out.
QUESTIONS = ("test", "ss", "find")
OUTPUT = re.compile(r"<output (\d+)>")


class NotedNode:
    """A ``Node`` that runs nothing: it notes every command, and answers as if it had worked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command, unless it only asks. Its output is a placeholder."""
        if argv[0] not in QUESTIONS:
            self.lines.append(shlex.join(argv))
        return Completed(0, f"<output of {argv[0]}> :2222 ", "")

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        """Note the command as a daemon."""
        self.lines.append(f"daemon {shlex.join(argv)}")
        return PaperProcess()

    def read_log(self, log: str) -> str:
        """Always empty: no daemon ran."""
        return ""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Note the command that makes this file."""
        self.lines.append(f"install -D -m {mode:o} /dev/stdin {shlex.quote(path)} <<'END'\n{text.rstrip()}\nEND")

    def defer(self, *argv: str) -> None:
        """Do nothing: nothing was changed here that could be undone."""


class PaperProcess:
    """A background command that was only noted. It seems to run, and its exit code is 0."""

    log = Path("/dev/null")

    def alive(self) -> bool:
        """True, for a caller that waits until it is up."""
        return True

    def stop(self) -> None:
        """Do nothing: it never ran."""

    def wait(self, timeout: float) -> int:
        """Its exit code, 0."""
        return 0


class KeyMaker(NotedNode):
    """The machine that makes the keys. Each command's output goes into a file of keys/ with the secret's name.
    ``days``: how long certificates are valid."""

    def __init__(self, days: int = 0) -> None:
        super().__init__("a trusted machine")
        self.days = days
        self.commands: list[tuple[tuple[str, ...], str | None]] = []

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command. Its output is a placeholder with the command's number."""
        self.commands.append((argv, input))
        return Completed(0, f"<output {len(self.commands) - 1}>\n", "")

    def written(self, secrets: Secrets) -> list[str]:
        """The lines of a shell script that makes a file in keys/ for each of the ``secrets``."""
        names: dict[int, list[str]] = {}
        for name, value in secrets.items():
            if output := OUTPUT.fullmatch(value.strip()):
                names.setdefault(int(output[1]), []).append(name)
        lines = []
        for number, (argv, input) in enumerate(self.commands):
            to, *more = names.get(number, [f"output-{number}"])
            used = number in names or any(f"<output {number}>" in (text or "") for _, text in self.commands)
            line = shlex.join(argv) + (f" > keys/{to}" if used else "")
            if input is not None:
                text = re.sub(r"([$`\\])", r"\\\1", input.rstrip("\n"))
                text = OUTPUT.sub(
                    lambda match: f"$(cat keys/{names.get(int(match[1]), [f'output-{match[1]}'])[0]})", text
                )
                line += f" << END\n{text}\nEND"
            lines += [line, *(f"cp keys/{to} keys/{name}" for name in more)]
        lines += [f"# Put {name} into keys/{name}." for name, value in secrets.items() if not OUTPUT.search(value)]
        return lines


class RecipeScript(NotedNode):
    """A ``NotedNode`` whose lines are a shell script. It uses gateway/functions.sh, and waits for what the plugin waits
    for. ``files``: the gateway's, path -> text and mode. ``undo``: the commands that undo the script. ``dials``: see
    ``Software.dials``."""

    def __init__(self, name: str, dials: Mapping[str, str]) -> None:
        super().__init__(name)
        self.dials = dials
        self.files: dict[str, tuple[str, int]] = {}
        self.undo: list[str] = []
        self.daemons = 0

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command and its ``input``. After a daemon was started, a command that only asks becomes a wait."""
        if argv[0] in QUESTIONS or (argv[:3] == ("ip", "link", "show") and not check):
            if self.daemons:
                self.lines.append(f"within 10 {shlex.join(argv)}")
        elif argv[:2] == ("rm", "-f"):
            self.lines.append(f"unused {shlex.join(argv[2:])}")
        elif there := self._dial_check(argv):
            self.lines.append(f"until {shlex.join(argv)} || {there}; do alive; sleep 2; done")
        else:
            here = f" <<'END'\n{input.rstrip()}\nEND" if input is not None else ""
            self.lines.append(shlex.join(argv) + ("" if check else " || true") + here)
        return Completed(0, f"<output of {argv[0]}> :2222 ", "")

    def _dial_check(self, argv: Sequence[str]) -> str:
        """The command that succeeds once the connection that ``argv`` dials is up; "" if ``argv`` dials none."""
        command = shlex.join(argv)
        return next((there for begin, there in self.dials.items() if command.startswith(f"{begin} ")), "")

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        """Note the command as a daemon. It will write its messages to the journal."""
        self.daemons += 1
        return super().spawn(*argv, log=log)

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Keep the file."""
        self.files[path] = text, mode

    def defer(self, *argv: str) -> None:
        """Note the undo, which is done before those that came earlier. What ends processes by their name is left out:
        the unit ends its own, and the gateway may have others of that name."""
        if argv[0] != "pkill":
            self.undo.insert(0, shlex.join(argv) + " 2> /dev/null || true")


def script_of(vpn: Vpn, params: Params, me: Site, sites: Sequence[Site], secrets: Secrets) -> RecipeScript:
    """What gateway ``me`` needs of the VPN itself: files, commands, and what takes them back."""
    script, peers = RecipeScript(me.name, vpn.software.dials), peers_of(me, sites)
    if me.joins:  # for each spoke, the others are behind the hub
        me = with_behind(me, peers)
    for path, text in vpn.render(me, peers, params, secrets).items():
        script.write(path, text)
    vpn.start(script, me, peers, params)
    return script


def script_beside(vpn: Vpn, params: Params, sites: Sequence[Site], secrets: Secrets) -> RecipeScript:
    """What the node needs that the VPN needs beside its gateways: files and commands."""
    me = helper_site(sites[0], vpn.beside)
    script = RecipeScript(vpn.beside, vpn.software.dials)
    for path, text in vpn.render_beside(me, sites, params, secrets).items():
        script.write(path, text)
    vpn.start_beside(script, me, sites, params)
    return script


def check_offered(vpn: Vpn, params: Params) -> None:
    """Raise UsageError for levels that the VPN does not have, or that today's daemons refuse."""
    if no := level_refusal(vpn, params):
        raise UsageError(f"{vpn.name}: {no.reason}")
    if "inner" in params and not vpn.inner_ipv6:
        raise UsageError(f"{vpn.title} does not carry IPv6 between the sites here. Leave --set inner out")
    for level in params.values():
        if gone := vpn.offers.gone.get(level):
            raise UsageError(f"{vpn.name}: {gone}. Choose another level than {level}")
