"""The lab image on a machine that is reached by ssh: sent there once, so that both gateways run the same versions."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from runner.data.errors import LabError
from runner.lab import probes
from runner.lab.node import PATIENCE
from runner.lab.node.answers import own_words
from runner.lab.node.commands import TOO_MUCH, SaidTooMuch, outputs
from runner.lab.node.lines import put
from runner.lab.places.connection import Connection
from runner.lab.places.ssh import BOOT
from runner.lab.software.image import Image

FOLDER = "/var/cache/vpneval/sent"  # not that of images which the machine built itself
CHUNK = 1 << 16
PAYLOAD_SHARE = 0.9  # of what is on the path: the rest is headers and ssh's own
AT_ONCE_S = 0.05  # of a limited rate
GONE_WITHIN_S = 60.0
STALLS_S = 120.0 * PATIENCE  # a machine that takes nothing for so long has been lost
STATUS = "var/lib/dpkg/status"  # by whose digest an image is known


def send_image(
    connection: Connection, image: Image, say: Callable[[str], None], max_rate_bps: float | None = None
) -> Image:
    """The image as it is on the machine. It is sent first, not faster than ``max_rate_bps``, where the machine lacks it
    or has another one. Raises LabError where that fails."""
    there = f"{FOLDER}/{image.root.name}"
    is_there = connection.run("sha256sum", f"{there}/{STATUS}").stdout.startswith(image.digest)
    if not is_there:
        size, limit = size_bytes(image.root), ""
        if max_rate_bps:
            least_s = size * 8 / PAYLOAD_SHARE / max_rate_bps
            limit = f", which takes {least_s:.0f} s at least, at no more than {max_rate_bps / 1e6:.4g} Mbit/s"
        say(
            f"vpneval sends the image {image.name} to {connection.name}: {size / 1e6:.0f} MB{limit} (once; remove it "
            f"there with: rm -r {FOLDER})"
        )
        _send(connection, image.root, f"{there}.partial", max_rate_bps)
        if connection.run("test", "-d", there).code == 0:  # another one
            connection.run("rm", "-rf", there, timeout=GONE_WITHIN_S)
        moved = connection.run("mv", "-T", f"{there}.partial", there)
        if moved.code != 0:
            raise LabError(f"{connection.name}: the image could not be put in place: {own_words(moved.stderr)}")
    return replace(image, root=Path(there))


def size_bytes(root: Path) -> int:
    """The size of the files below ``root``."""
    every = (os.lstat(Path(folder, name)) for folder, _, names in os.walk(root) for name in names)
    return sum(found.st_size for found in every)


def forget(connection: Connection) -> None:
    """Remove every image that was sent to the machine."""
    connection.run("rm", "-rf", FOLDER, timeout=GONE_WITHIN_S)
    connection.run("rmdir", str(Path(FOLDER).parent))


def _send(connection: Connection, root: Path, folder: str, max_rate_bps: float | None) -> None:
    """Send what is below ``root`` into ``folder`` as a tar archive; both ends compute its digest."""
    pipe, bytes_per_s = subprocess.PIPE, PAYLOAD_SHARE * (max_rate_bps or 0.0) / 8
    chunk = min(CHUNK, int(bytes_per_s * AT_ONCE_S) + 1) if bytes_per_s else CHUNK
    due = time.monotonic()
    program, digest = probes.source("receive"), hashlib.sha256()
    pack = ["tar", "-C", str(root), "--numeric-owner", "--xattrs", "-cf", "-", "."]
    unpack = connection.argv("python3", "-IS", "-c", BOOT, folder)
    with (
        subprocess.Popen(unpack, stdin=pipe, stdout=pipe, stderr=pipe) as there,
        subprocess.Popen(pack, stdout=pipe) as here,
    ):
        assert there.stdin is not None
        assert here.stdout is not None
        try:
            with suppress(BrokenPipeError):  # the other end says why
                put(there.stdin.fileno(), f"{len(program.encode()):8}{program}".encode(), STALLS_S)
                while data := here.stdout.read(chunk):
                    digest.update(data)
                    put(there.stdin.fileno(), data, STALLS_S)
                    if bytes_per_s:  # a stall is not made up for
                        due = max(due, time.monotonic() - AT_ONCE_S) + len(data) / bytes_per_s
                        time.sleep(max(0.0, due - time.monotonic()))
            there.stdin.close()
            output, complaint = outputs(there, STALLS_S)
        except (TimeoutError, subprocess.TimeoutExpired) as late:
            raise LabError(
                f"{connection.name}: the image could not be sent: nothing moved for {STALLS_S:g} s"
            ) from late
        except SaidTooMuch as endless:
            raise LabError(f"{connection.name}: the image could not be sent: {TOO_MUCH}") from endless
        finally:
            there.kill()
            here.stdout.close()
    if output.decode(errors="replace").strip() != digest.hexdigest() or here.returncode != 0:
        why = own_words(complaint.decode(errors="replace")[-300:]) or "what arrived there is not what was sent"
        raise LabError(f"{connection.name}: the image could not be sent: {why}")
