"""A damaged lab image under real VPNs: no VPN is blamed, the file is named with the command that mends it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab.software.image import Image
from tests.lab.commands import vpneval


@pytest.mark.parametrize(
    ("file", "how"),
    [("usr/sbin/openvpn", "cut"), ("libcrypto.so.3", "cut"), ("liblzo2.so.2", "removed")],
)
def test_a_damaged_image_is_told_and_no_vpn_is_blamed(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, how: str
) -> None:
    if image.root == Path("/"):
        pytest.skip("the host's own root is not copied")
    cache = image.root.parent.parent.parent / f"vpneval-damaged-{os.getpid()}"  # on the same disk, for the links
    root = cache / "images" / image.root.name
    try:
        root.parent.mkdir(parents=True)
        subprocess.run(["cp", "-al", image.root, root], check=True)
        shutil.copy(image.root.with_suffix(".json"), root.with_suffix(".json"))
        victim = (root / file) if "/" in file else next((root / "usr/lib").glob(f"*/{file}")).resolve()
        whole = victim.read_bytes()
        victim.unlink()
        if how == "cut":
            victim.write_bytes(whole[: len(whole) // 2])
            victim.chmod(0o755)
        asked = ("--profile", "smallest", "--vpn", "openvpn", "--set", "measure=idle")
        monkeypatch.setenv("VPNEVAL_CACHE", str(cache))
        done = vpneval("run", "transport", *asked, "--out", tmp_path / "run")
        said = " ".join((done.stdout + done.stderr).split())
        assert victim.name in said
        assert "vpneval image trixie --rebuild" in said
        if file == "libcrypto.so.3":  # no lab can be made without it
            assert done.returncode == 4, said
        else:
            trials = {trial.vpn: trial for trial in load_run(tmp_path / "run")[1]}
            assert (done.returncode, trials["openvpn"].status) == (1, "lab_error"), said
            assert victim.name in trials["openvpn"].reason
    finally:
        shutil.rmtree(cache, ignore_errors=True)
