"""``vpneval image --mirror``: the mirror that is named is the one that mmdebstrap asks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.lab.commands import vpneval


@pytest.fixture
def mirror() -> Iterator[tuple[str, list[str]]]:
    """The URL of a mirror on loopback that has nothing, and the paths that it was asked for."""
    asked: list[str] = []

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/debian", asked
        server.shutdown()


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["url", "sources.list"])
def test_the_image_is_built_from_the_mirror(
    mirror: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("only root builds an image, with mmdebstrap")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    named, asked = mirror
    if how == "sources.list":
        listed = tmp_path / "sources.list"
        listed.write_text(f"deb {named} trixie main\n")
        named = str(listed)
    done = vpneval("image", "trixie", "--mirror", named, timeout=120)
    assert asked[:1] == ["/debian/dists/trixie/InRelease"]
    assert done.returncode == 3, done.stderr
    assert "mmdebstrap could not build the image trixie" in done.stderr
    assert "another Debian mirror" not in done.stderr, "it is told to who named none"
