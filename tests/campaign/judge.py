"""What every command must keep to, however it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from runner.data.streams import CONTROL

LIMIT_S = 30.0  # on a machine that does nothing else
MOST_KB = 1_500_000  # of memory; what a user names may have runner.data.files.MOST_BYTES
CODES = (0, 1, 2, 3, 4, 5, 6, 130, 141)


def patience_s(limit_s: float) -> float:
    """So long may something last here and now: longer by as many times as each core is wanted (load average)."""
    return limit_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def judged(
    argv: Sequence[str], code: int | None, out: str, err: str, *, whole: bool = True, peak_kb: int = 0
) -> list[str]:
    """What is wrong with how a command ended, or nothing. ``code`` is None where it had to be killed. ``whole``: could
    it write all that it had to say? ``peak_kb``: the most memory that it had."""
    wrong = []
    if peak_kb > MOST_KB:
        wrong.append(f"it took {peak_kb} kB of memory")
    if code is None:
        wrong.append("it had not ended in time")
    elif code not in CODES:
        wrong.append(f"exit code {code}")
    if "Traceback" in out + err:
        wrong.append("a traceback:\n" + err[-3000:])
    if code in (2, 4) and not err.strip():
        wrong.append(f"exit code {code}, and no word why")
    if found := CONTROL.search((out + err).replace("\r\n", "\n")):
        wrong.append(f"a control character: {(out + err)[max(0, found.start() - 60) : found.start() + 20]!a}")
    asked = "--json" in argv or ("--format" in argv and "json" in argv)
    helped = {"--help", "--version"} & {*argv}
    if asked and code in (0, 1) and whole and not helped:
        try:
            json.loads(out)
        except ValueError as error:
            wrong.append(f"not JSON alone: {error}: {out[:200]!r}")
    return wrong
