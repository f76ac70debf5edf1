"""Browser tests open pages from the disk in headless Chromium; they need Chromium and the Python package playwright."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("CHROMIUM") or which("chromium") or which("chromium-browser") or which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE_MS = 1000 * float(os.environ.get("VPNEVAL_PATIENCE", "60"))
Open = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a profile of its own, which is empty."""
    if not CHROMIUM:
        pytest.skip("no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    driver = subprocess.run([sys.executable, "-m", "playwright", "--version"], capture_output=True, text=True)
    if driver.returncode != 0:
        pytest.skip(
            f"Playwright does not start ({driver.stderr.strip()}); on Debian it needs: apt-get install libatomic1"
        )
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=PATIENCE_MS
        )
        context.set_default_timeout(PATIENCE_MS)
        yield context
        context.close()


@pytest.fixture
def open_page(chromium: BrowserContext) -> Iterator[Open]:
    """Opens a file (and a fragment) in a new tab of a width. At the end: no tab asked for anything but its file,
    and none said anything on the console, or failed."""
    pages: list[Page] = []
    asked: list[str] = []
    said: list[str] = []

    def opened(path: Path, fragment: str = "", width: int = 1200, dark: bool = False) -> Page:
        page = chromium.new_page()
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url.split("#")[0]))
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("html[data-ready], html[data-plots]:not(:has(#data))", state="attached")
        return page

    yield opened
    for page in pages:
        page.close()
    assert {url for url in asked if not url.startswith("file:")} == set()
    assert said == []
