"""A device by itself, measured by its own programs over ssh: 100 MB through its sshd, openssl speed, iperf3.

It is the device page's own method, for a router on which no lab can stand: this machine is the near host.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from runner.data.errors import CommandError, LabError, MeasurementError, UsageError
from runner.data.kinds import NotNegative
from runner.data.lab_facts import LabFacts
from runner.data.levels import BASELINE, TUNNEL
from runner.data.store import open_store
from runner.data.trials import Cell
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.iperf import FREE_WITHIN_S, IPERF_PORT, NOT_YET
from runner.instruments.traffic.device import BLOCK_BYTES, BLOCKS, CIPHERS
from runner.lab.node import PATIENCE
from runner.lab.node.answers import own_words, understood
from runner.lab.node.commands import SaidTooMuch, run_to_end
from runner.lab.node.lines import CHUNK, readable
from runner.lab.node.namespaces import kill_group
from runner.lab.places import device_of
from runner.lab.places.shell import NAME, PROGRAMS, Looked, Shell
from runner.lab.readings.facts import openssl_bps
from runner.lab.readings.hardware import UNKNOWN
from runner.lab.software.image import Image
from runner.sweep.going_on import measured_ids
from runner.sweep.plan import Planned, blocks
from runner.sweep.records import Records
from runner.sweep.request import Request
from runner.sweep.run import on_disk, written_down
from runner.sweep.run_record import describe, membership
from runner.sweep.settings import Outcome, Watch

LONGEST_S = 600.0  # of a transfer; the slowest device of the page took 184 s
TALKS_S = 30.0  # what a test takes beyond its time, at most
HMACS = {"hmac-sha1", "hmac-sha256"}  # that IPsec has beside a cipher
# Ends with its connection, whose end cat sees.
SERVE = 'iperf3 -s -p "$1" > /dev/null 2>&1 & cat > /dev/null; kill $!'
OURS: Mapping[str, Mapping[str, Collection[str]]] = {  # instrument -> the levels that can be had of its factors
    "device": {"device_cipher": CIPHERS},
    "tcp": {"payload": ["random"], "streams": ["1"], "direction": ["forward", "reverse"]},
}
BEHIND = "it needs hosts behind the device, so a lab of several machines (docs/labs.md)"


class Sum(BaseModel):
    """What iperf3 says of an interval, or of a test."""

    bits_per_second: NotNegative
    bytes: NotNegative


class Interval(BaseModel):
    """An interval of all streams."""

    sum: Sum


class End(BaseModel):
    """The end of a test."""

    sum_received: Sum


class Iperf3Test(BaseModel):
    """What iperf3 says of a whole test (iperf3(1) --json); only ``error`` of one that failed."""

    error: str = ""
    intervals: list[Interval] = []
    end: End | dict[str, Any] = {}


def run(request: Request, folder: Path, say: Callable[[str], None], watch: Watch) -> Outcome:
    """Measure what was asked for of the device that the request's lab names, into this run folder; as
    ``runner.sweep.run.run``. What the device lacks is said, and the rest is measured."""
    machine, asked, started = device_of(request.asked.lab), request.asked, time.monotonic()
    assert machine is not None
    if not any(_is_ours(cell) for cell in request.cells):
        raise UsageError(
            f"{asked.lab} names a device by itself: ssh, openssl and iperf3 are measured there, by the experiment "
            f"devices, and nothing of {', '.join(asked.experiments)}"
        )
    shell = Shell(machine)
    seen = shell.look()
    for program in seen.lacks:
        number, package = PROGRAMS[program]
        say(f"The device has no {program}, so there is no {number}; the rest is measured. OpenWrt's package: {package}")
    with open_store(folder) as store, on_disk(store):
        versions = sorted(seen.versions.items())
        digest = hashlib.sha256(repr((seen.machine, versions)).encode()).hexdigest()[:12]
        record = describe(request, store, facts(seen), Image("host", Path("/"), digest, dict(versions)), {})
        if "openssl" not in seen.lacks:
            ciphers = {cell.params.get("device_cipher", "") for cell in request.cells}
            record.lab["openssl_bps"] = openssl_bps(shell, ciphers | HMACS, record.lab.get("openssl_bps", {}))
        with watch(folder, record) as watcher:
            records = Records(store, watcher, membership(record))
            with written_down(record, asked, records, started):
                done, hopeless = (
                    measured_ids(store.trials, asked.retry_failed),
                    _hopeless(request, shell, seen, records),
                )
                plan = blocks(request.cells, request.repetitions, asked.seed, done, hopeless, request.profile)
                watcher.show_plan(plan.sums.trials, plan.sums.expected_s)
                trials = [trial for block in plan for tunnel in block.tunnels for trial in tunnel.trials]
                for at, trial in enumerate(trials):
                    if asked.deadline_s and time.monotonic() - started > asked.deadline_s:
                        records.outcome.trimmed = len(trials) - at
                        break
                    watcher.measuring(trial)
                    if not _measure(shell, seen, trial, request.profile.duration_s, records):
                        break
            return records.outcome


def facts(seen: Looked) -> dict[str, Any]:
    """The facts of the device, as run.json has those of a lab. Raises CannotRunHere for what is none."""
    about = {**seen.about, "ports": seen.ports}
    found = {
        "kind": NAME,
        "machine": seen.machine,
        "device": seen.model or seen.about["maker"].replace(UNKNOWN, seen.machine),
        **{name: seen.about[name] for name in ("kernel", "cpu", "cores", "memory_bytes")},
        "nodes_share_cores": False,
        "lacks": {program: PROGRAMS[program][0] for program in seen.lacks},
        "machines": {NAME: about},
    }
    with understood(NAME):
        TypeAdapter(LabFacts).validate_python(found)
    return found


def _hopeless(request: Request, shell: Shell, seen: Looked, records: Records) -> set[str]:
    """The keys of the cells that cannot be measured on the device. Says why, and writes a line for each."""
    known = {trial.cell for trial in records.store.trials if trial.status == "unsupported"}
    by_reason = dict[str, list[Cell]]()
    for cell in request.cells:
        if cell.key not in known and (why := refusal(shell, seen, cell)):
            by_reason.setdefault(why, []).append(cell)
    for why, cells in by_reason.items():
        records.watcher.say(f"{len(cells)} of {len(request.cells)} cells cannot be measured on the device: {why}.")
        for cell in cells:
            records.write(Planned(cell, 1), status="unsupported", reason=why)
    return known | {cell.key for cells in by_reason.values() for cell in cells}


def refusal(shell: Shell, seen: Looked, cell: Cell) -> str:
    """Why the cell cannot be measured on the device, as a clause; empty where it can. Asks the device whether its sshd
    has the cell's cipher."""
    if not _is_ours(cell):
        return "vpneval does not change the environment of its ssh server" if "driver" in cell.params else BEHIND
    needs = "iperf3" if cell.params["measure"] == "tcp" else "dd"
    if needs in seen.lacks:
        return f"it has no {needs}, so there is no {PROGRAMS[needs][0]}"
    if needs == "iperf3":
        return "" if shutil.which(needs) else "this machine has no iperf3: apt-get install iperf3"
    cipher = CIPHERS[cell.params["device_cipher"]]
    why = shell.denies(cipher)
    return f"its ssh server does not take {cipher} ({why})" if why else ""


def _is_ours(cell: Cell) -> bool:
    """Can the cell be measured on a device by itself? It has no VPN, and no level that needs more than the programs."""
    own = OURS.get(cell.params["measure"])
    if cell.vpn != BASELINE or own is None or own.keys() != cell.params.keys() - {*TUNNEL, "measure"}:
        return False
    return all(cell.params[factor] in levels for factor, levels in own.items())


def _measure(shell: Shell, seen: Looked, trial: Planned, duration_s: int, records: Records) -> bool:
    """Measure one trial, and write its line. Returns whether the device still answers."""
    params, started = trial.cell.params, time.monotonic()
    try:
        if params["measure"] == "tcp":
            measured = tcp(shell, duration_s, params["direction"])
        else:
            measured = transfer(shell, params["device_cipher"], seen.about["frequency_mhz"])
        records.check(trial, measured)
        records.write(trial, measured=measured, started=started)
    except (MeasurementError, CommandError) as failed:
        try:
            shell.run("true")
        except (LabError, CommandError) as gone:
            records.outcome.stopped = str(gone)
            records.write(trial, status="lab_error", reason=str(gone), started=started)
            return False
        records.write(trial, status="failed", reason=str(failed), started=started)
    return True


def transfer(shell: Shell, cipher: str, frequency_mhz: Any) -> Measured:
    """The rate of 100 MB of zeros that dd makes on the device and its own sshd carries here, the login included. Raises
    MeasurementError where not all of it comes, or more, or none within LONGEST_S."""
    wanted, got = BLOCK_BYTES * BLOCKS, 0
    dd = ("dd", "if=/dev/zero", f"bs={BLOCK_BYTES}", f"count={BLOCKS}")
    started = time.monotonic()
    with _process(shell.argv(*dd, options=("-c", CIPHERS[cipher]))) as ssh:
        assert ssh.stdout is not None
        assert ssh.stderr is not None
        coming, end = ssh.stdout.fileno(), started + LONGEST_S * PATIENCE
        while got <= wanted and readable([coming], end - time.monotonic()) and (data := os.read(coming, CHUNK)):
            got += len(data)
        elapsed = time.monotonic() - started
        complaints = ssh.stderr.fileno()
        said = os.read(complaints, CHUNK).decode(errors="replace") if readable([complaints], 1.0) else ""
    if got != wanted:
        raise MeasurementError(f"{got} bytes came within {elapsed:.0f} s, not {wanted}: {own_words(said)}")
    value = measurement("ssh_rate", 8 * wanted / elapsed, seconds=round(elapsed, 3), cipher=cipher)
    value.detail["cpu_mhz"] = frequency_mhz[0] if isinstance(frequency_mhz, list) else None
    return Measured([value], elapsed)


def tcp(shell: Shell, duration_s: int, direction: str) -> Measured:
    """What one TCP stream carries between this machine and the device, without a VPN: an iperf3 test of ``duration_s``,
    the server on the device. ``reverse``: the device sends. Raises MeasurementError with iperf3's words."""
    address = shell.hostname()
    argv = ["iperf3", "--client", address, "--port", IPERF_PORT, "--json", "--connect-timeout", "3000"]
    argv += ["--time", str(duration_s), *(["--reverse"] if direction == "reverse" else [])]
    started = time.monotonic()
    with _process(shell.argv("sh", "-c", SERVE, "sh", IPERF_PORT)) as server:
        end = started + (FREE_WITHIN_S + TALKS_S) * PATIENCE
        try:
            while True:
                _, said, complaint = run_to_end(argv, (duration_s + TALKS_S) * PATIENCE)
                if not NOT_YET.search(said) or server.poll() is not None or time.monotonic() > end:
                    break
                time.sleep(0.1)
            test = Iperf3Test.model_validate_json(said)
        except (subprocess.TimeoutExpired, SaidTooMuch) as hung:
            raise MeasurementError(f"iperf3 to {address} hung: {type(hung).__name__}") from hung
        except ValidationError as odd:
            raise MeasurementError(f"iperf3 printed no result: {own_words(complaint or said)[-300:]}") from odd
    if test.error or not isinstance(test.end, End):
        raise MeasurementError(f"iperf3 to {address}, port {IPERF_PORT}: {own_words(test.error) or 'no result'}")
    if not test.end.sum_received.bytes:
        raise MeasurementError("iperf3 sent, and nothing was received")
    samples = [each.sum.bits_per_second for each in test.intervals]
    value = measurement("tcp_throughput", test.end.sum_received.bits_per_second, samples)
    return Measured([value], time.monotonic() - started)


@contextmanager
def _process(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command of this machine that is ended with the block, with what it has started."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        try:
            yield process
        finally:
            kill_group(process)
