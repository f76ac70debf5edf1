"""report.html, .md, .json and .csv of a run folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from runner.report.html import html_text
from runner.report.markdown import markdown_text
from runner.report.model import Report
from runner.report.tables import csv_text, json_text

RENDERERS = {"html": html_text, "md": markdown_text, "json": json_text, "csv": csv_text}


def write_reports(run_dir: Path, report: Report) -> list[Path]:
    """Write every form of the report into ``run_dir``; returns the paths. Each file is the old or the new
    one, whole, whatever happens; raises OSError where the disk does."""
    paths = []
    for suffix, render in RENDERERS.items():
        path = run_dir / f"report.{suffix}"
        _replace(path, render(report))
        paths.append(path)
    return paths


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
