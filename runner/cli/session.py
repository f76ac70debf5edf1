"""One call of ``vpneval run``: the lab is looked at, the loop runs, and run.json tells how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from runner.cli.asked import Asked
from runner.cli.described import describe, membership, save_packages
from runner.cli.progress import LiveProgress, PlainProgress, is_live
from runner.data.errors import CannotRunHere, Interrupted, LabError
from runner.data.store import FULL, Store, load_run, open_store
from runner.data.trials import MOST_LOOKS, Invocation, Run
from runner.data.wan import conditions
from runner.instruments.traffic.iperf import check_version
from runner.lab import wan
from runner.lab.facts import facts, openssl_bps
from runner.lab.image import Image
from runner.lab.places import Rig, open_rig
from runner.report.behind import so_far
from runner.sweep.call import Outcome, Settings, Watcher
from runner.sweep.looks import going
from runner.sweep.loop import Loop
from runner.sweep.until import MOST_REPETITIONS, next_cells


def conduct(asked: Asked, command_line: list[str], console: Console, quiet: bool) -> tuple[Path, Outcome]:
    """Run what was asked. Returns the run folder and what was done; the report is made from the folder.

    Raises Interrupted on Ctrl-C, after the invocation has been written down.
    """
    say = lambda text: None if quiet else console.print(text, markup=False, highlight=False)  # noqa: E731
    with open_rig(asked.lab, say) as rig:
        return _conduct_on(rig, asked, command_line, console, quiet)


def _conduct_on(rig: Rig, asked: Asked, command_line: list[str], console: Console, quiet: bool) -> tuple[Path, Outcome]:
    say = lambda text: None if quiet else console.print(text, markup=False, highlight=False)  # noqa: E731
    image = rig.image(asked.image, say)
    gateway_images = {name: rig.image(name, say) for name in asked.gateway_images}
    started = time.monotonic()
    folder = asked.out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{asked.profile.name}"
    with open_store(folder) as store, _on_disk(store):
        run = _look(rig, asked, store, image, gateway_images)
        save_packages(store, [image, *gateway_images.values()])
        settings = Settings(
            asked.profile,
            asked.repetitions,
            run.seed,
            image,
            gateway_images,
            asked.retry_failed,
            started + asked.deadline_s if asked.deadline_s else None,
            None if asked.deadline_s else MOST_REPETITIONS,
            rig,
        )
        live = None
        if is_live(console) and not quiet:
            live = LiveProgress(console, run.metrics, lambda: so_far(*load_run(folder), weights=asked.weights))
        watcher: Watcher = live or PlainProgress(console, run.metrics, quiet)
        loop = Loop(store, {vpn.name: vpn for vpn in asked.vpns}, asked.cells, settings, watcher, membership(run))
        loop.until_significant = asked.until_significant
        if asked.until_significant:
            loop.look = lambda left_s: next_cells(*load_run(folder), asked.cells, asked.weights)
        elif asked.profile.rounds and (of_s := asked.deadline_s):
            loop.look = lambda left_s: going(*load_run(folder), asked.cells, asked.weights, left_s, of_s)
        with _written_down(run, command_line, loop, started), live or nullcontext():
            return folder, loop.run()


def _look(rig: Rig, asked: Asked, store: Store, image: Image, gateway_images: Mapping[str, Image]) -> Run:
    """What the lab is, before anything is measured in it. Raises CannotRunHere where it is not enough, and UsageError
    where the run folder belongs to another."""
    with rig.lab(image) as lab:
        if asked.profile.wan_rate_bps:  # so that the facts show the queues that will be there
            if not lab.has_wan:
                raise CannotRunHere(
                    "this profile shapes the WAN, which needs a machine between the gateways, and this lab has none"
                )
            wan.apply(lab, conditions({}, asked.profile.wan_rate_bps))
        iperf3 = {node.name: check_version(node) for node in (lab.host1, lab.host2)}
        run = describe(asked, store, facts(lab) | {"iperf3": iperf3}, image, gateway_images)
        levels = {cell.params[factor] for cell in asked.cells for factor in ("cipher", "integrity")}
        run.lab["openssl_bps"] = openssl_bps(lab, levels, run.lab.get("openssl_bps", {}))
    return run


@contextmanager
def _on_disk(store: Store) -> Iterator[None]:
    """What becomes of the run folder before the first trial, or after the last, stops the run as it does in between."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL and store.is_there():
            raise
        go_on = f". To continue: the same command with --out {store.folder}" if store.is_there() else ""
        raise LabError(store.trouble(error) + go_on) from error


@contextmanager
def _written_down(run: Run, command_line: list[str], loop: Loop, started: float) -> Iterator[None]:
    """The call that begins here is in run.json at once; at its end, whatever that is, so is how it ended.

    Raises Interrupted on Ctrl-C, SIGTERM and SIGHUP, and OSError where the run folder cannot be written any more.
    """
    store, outcome = loop.store, "interrupted"
    call = Invocation(command_line=command_line, started_at=datetime.now(UTC).isoformat(timespec="seconds"))
    store.save_run(run.model_copy(update={"invocations": [*run.invocations, call]}))
    try:
        yield
        outcome = f"stopped: {loop.outcome.stopped}" if loop.outcome.stopped else "complete"
    except KeyboardInterrupt:
        safe = f"interrupted; {len(store.trials)} trials are safe in {store.folder}"
        raise Interrupted(f"{safe}. To continue: the same command with --out {store.folder}") from None
    finally:
        ended = call.model_copy(
            update={
                "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "outcome": outcome,
                "elapsed_s": round(time.monotonic() - started, 3),
                "measuring_s": round(loop.outcome.measuring_s, 3),
                "trimmed": loop.outcome.trimmed,
                "separation": loop.outcome.separation,
            }
        )
        looks = min(MOST_LOOKS, run.looks + loop.outcome.looks - 1)
        update = {"invocations": [*run.invocations, ended], "looks": looks}
        store.save_run(run.model_copy(update=update))
