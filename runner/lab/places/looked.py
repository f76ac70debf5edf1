"""A machine that is only looked at: commands run there by ssh, and nothing is written.

What asks a node by a probe (``runner/lab/node/probing.py``) writes it there first. Here its text is kept, and goes with
the command that would run the file.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from runner.data.errors import CannotRunHere, CommandError, LabError
from runner.lab.node import Completed
from runner.lab.node.commands import Dialogue
from runner.lab.node.namespaces import kill_group
from runner.lab.places.connection import Connection
from runner.lab.places.inventory import MachineEntry
from runner.lab.places.private import private_folder
from runner.lab.redaction import hide


class LookedAt:
    """The machine behind ``connection``: of a ``LabNode`` what a probe needs."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name, self.connection = name, connection
        self._texts: dict[str, str] = {}

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Keep a probe's text for the command that runs it."""
        self._texts[path] = f"# {path}\n{text}"

    def _argv(self, argv: tuple[str, ...]) -> list[str]:
        """The command with a probe's text in place of its path (python(1), -c)."""
        return [word for one in argv for word in (("-c", self._texts[one]) if one in self._texts else (one,))]

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """As Node.run."""
        done = self.connection.run(*self._argv(argv), timeout=timeout, input=input)
        if check and done.code != 0:
            raise CommandError(self.name, argv, done.code, hide(done.stderr))
        return done

    def talk(self, *argv: str) -> Dialogue:
        """As LabNode.talk."""
        pipe = subprocess.PIPE
        argv = tuple(self.connection.argv(*self._argv(argv)))
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        return Dialogue(process, self.name)

    def end(self, process: Dialogue) -> None:
        """As LabNode.end: the probe at the other end ends with its standard input."""
        kill_group(process.process)


@contextmanager
def looked_at(machines: Mapping[str, MachineEntry], say: Callable[[str], object]) -> Iterator[dict[str, LookedAt]]:
    """Connections to the machines, which need not allow root. Raises CannotRunHere with every one that is not
    reached."""
    with private_folder() as folder:
        connections = {name: Connection(name, machine, folder, say) for name, machine in machines.items()}
        try:
            problems = []
            for connection in connections.values():
                try:
                    connection.wait_ready(as_root=False)
                except (CannotRunHere, LabError) as problem:
                    problems.append(str(problem))
            if problems:
                raise CannotRunHere("\n".join(problems))
            yield {name: LookedAt(name, connection) for name, connection in connections.items()}
        finally:
            for connection in connections.values():
                connection.close()
