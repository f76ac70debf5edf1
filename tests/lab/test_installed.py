"""The wheel, installed into an empty environment: it looks at this machine, measures and reports, all elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.installed import done

pytestmark = pytest.mark.usefixtures("image")


def test_doctor_looks_at_the_lab(installed: Path, tmp_path: Path) -> None:
    said = " ".join(done(str(installed), "doctor", folder=tmp_path).stdout.split())
    works, _, _ = said.partition("unsupported VPNs")
    assert "wireguard_go" in works.partition("ok VPNs")[2]
    assert list(tmp_path.iterdir()) == []


def test_the_smallest_run_and_its_report(installed: Path, tmp_path: Path) -> None:
    asked = ("run", "transport", "--vpn", "none,wireguard_go", "--profile", "smallest", "--out", "run")
    assert "TCP throughput" in done(str(installed), *asked, folder=tmp_path).stdout
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert "wireguard_go" in done(str(installed), "report", "run", folder=tmp_path).stdout
