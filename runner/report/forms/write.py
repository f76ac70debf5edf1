"""Writing report.html, .md, .json and .csv into a run folder; on demand the pictures and a Parquet table too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from runner.data.files import no_link
from runner.report.forms.bibtex import bibtex
from runner.report.forms.markdown import PICTURES, markdown_text
from runner.report.forms.registry import FORMS
from runner.report.forms.tables import parquet_bytes
from runner.report.model import Report
from runner.report.plots import vega
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Samples


def write_reports(run_dir: Path, report: Report) -> list[Path]:
    """Write every form of the report into ``run_dir``; return the paths. Whatever happens, each file is the old one or
    the new one as a whole. Raises OSError where the disk fails, UsageError where a file is a symbolic link."""
    paths = []
    for form in FORMS.values():
        if form.beside:
            paths.append(run_dir / f"report.{form.name}")
            replace_file(paths[-1], form.text(report, run_dir).encode())
    return paths


def write_everything(run_dir: Path, report: Report) -> Iterator[Path]:
    """Write the same files, each plot as SVG, PNG and PDF, report.md with these SVGs, report.bib, and report.parquet if
    polars is installed; give each path when it is written. A picture takes half a second, so ``vpneval run`` makes
    none. Raises as ``write_reports`` does."""
    yield from write_reports(run_dir, report)
    samples = Samples(report)
    plots = {experiment.name: plots_of(report, experiment, samples) for experiment in report.experiments}
    no_link(run_dir / PICTURES).mkdir(exist_ok=True)
    for plot in (plot for of_experiment in plots.values() for plot in of_experiment):
        pictures = {"svg": vega.svg(plot.spec).encode(), "png": vega.png(plot.spec), "pdf": vega.pdf(plot.spec)}
        for suffix, picture in pictures.items():
            replace_file(path := run_dir / PICTURES / f"{plot.key}.{suffix}", picture)
            yield path
    replace_file(run_dir / "report.md", markdown_text(report, plots, run_dir).encode())
    replace_file(path := run_dir / "report.bib", bibtex(report).encode())
    yield path
    table = parquet_bytes(report)
    if table:
        replace_file(path := run_dir / "report.parquet", table)
        yield path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of the run folder in one step, never through a link. Raises UsageError, OSError."""
    no_link(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with ExitStack() as undo:
        undo.callback(os.unlink, temporary)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        os.replace(temporary, path)
        undo.pop_all()
