"""The page as PDF: printed by headless Chromium, so that it is the page and nothing else. See decision 0020."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from shutil import which

from runner.data.errors import UsageError

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 120.0
DRAWING_MS = 30_000  # of Chromium's virtual time, which ends as soon as nothing is left to do
FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--no-pdf-header-footer", f"--virtual-time-budget={DRAWING_MS}"),
)


def find_chromium() -> str:
    """The path of Chromium. Raises UsageError where there is none."""
    if chromium := os.environ.get("CHROMIUM") or next(filter(None, map(which, NAMES)), None):
        return chromium
    raise UsageError(
        "a PDF needs Chromium: apt-get install chromium, or set CHROMIUM to its path; "
        "or print the page (--format html) from any browser"
    )


def pdf_bytes(page: str) -> bytes:
    """``page``, HTML that draws its plots when its address ends in ``?print``, as PDF.

    Raises UsageError where there is no Chromium, or where it fails, with its last words."""
    chromium = find_chromium()
    with tempfile.TemporaryDirectory(prefix="vpneval-pdf-", ignore_cleanup_errors=True) as folder:
        made, source = Path(folder) / "page.pdf", Path(folder) / "page.html"
        source.write_text(page, encoding="utf-8")
        # Chromium's sandbox refuses to run as root; the page runs three scripts, named by digest, and asks no network.
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        argv = [chromium, *FLAGS, *root, f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}"]
        try:
            ended = subprocess.run(
                [*argv, f"{source.as_uri()}?print"], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except OSError as error:
            raise UsageError(f"{chromium} cannot be started: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"{chromium} made no PDF within {LIMIT_S:g} s") from None
        if not made.exists():
            last_words = ended.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise UsageError(f"{chromium} ended with {ended.returncode} and made no PDF: {last_words[0]}")
        return made.read_bytes()
