"""What guests bring up, kept as a run keeps it: in a run folder and on the console, by the runner's own code. So it can
be searched for the secrets, which are told beside it, as can the reports that are made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from runner.catalogue import load_experiment, load_vpn, record_of
from runner.cli.live import PlainProgress
from runner.cli.output import err
from runner.data.store import Store, open_store
from runner.data.trials import Value
from runner.design.profile import PROFILES
from runner.instruments.result import Measured
from runner.sweep.plan import Planned
from runner.sweep.records import Records
from runner.sweep.run_record import membership
from runner.sweep.tunnels import RunContext
from runner.tunnel.bring_up import Tunnel
from tests.unit.synthetic import make_run

RUN, TOLD = "kept", "told"  # in the folder of a guest's tests


class Kept:
    """A run folder of these VPNs, each with a trial that went well, and one that failed. Beside it, ``told`` has a file
    of each VPN's secrets."""

    def __init__(self, store: Store, told: Path, names: Sequence[str]) -> None:
        self.store, self.told = store, told
        vpns = [load_vpn(name) for name in names]
        asked = load_experiment("reference").record(vpns, PROFILES["smallest"], {})
        self._cells = {cell.vpn: cell for cell in asked.cells if cell.params["measure"] == "tcp"}
        run = make_run((), (asked,)).model_copy(update={"vpns": {vpn.name: record_of(vpn) for vpn in vpns}})
        store.save_run(run)
        self._records = Records(store, PlainProgress(err, run.metrics), membership(run))
        own = SimpleNamespace(root=Path("/"))  # of which a failure does not ask whether it is damaged
        stage = cast(Any, SimpleNamespace(rig=SimpleNamespace(stands=1), image=own, images={"": own}))
        self._context = RunContext(store, {vpn.name: vpn for vpn in vpns}, stage, self._records.watcher, self._records)

    def secrets(self, name: str, made: Mapping[str, str]) -> None:
        """These are in use."""
        with (self.told / name).open("a") as file:
            file.write(json.dumps(dict(made)) + "\n")

    def ok(self, name: str, up: Tunnel, values: list[Value], folder: Path) -> None:
        """It was up, and this was measured."""
        log = self._context.log(folder)
        self._records.write(Planned(self._cells[name], 1), up, measured=Measured(values), log=log)

    def failed(self, name: str, error: BaseException, folder: Path) -> None:
        """It did not come up."""
        self._context.fail([Planned(self._cells[name], 2)], error, folder)


@contextmanager
def keeping(folder: Path, names: Sequence[str]) -> Iterator[Kept]:
    """In this folder."""
    (told := folder / TOLD).mkdir()
    with open_store(folder / RUN) as store:
        yield Kept(store, told, names)


def told(folder: Path, name: str) -> dict[str, str]:
    """All the secrets that the VPN had."""
    made = [json.loads(line) for line in (folder / TOLD / name).read_text().splitlines()]
    return {f"{number} {key}": text for number, secrets in enumerate(made) for key, text in secrets.items()}
