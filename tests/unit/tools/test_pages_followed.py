"""The pages that extend vpneval, followed to the letter in a copy of the tree: what they say passes lint and tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
A_VPN, AN_INSTRUMENT = (ROOT / "docs" / f"add-{page}.md" for page in ("a-vpn", "an-instrument"))
OF_A_VPN = ("tests/unit/vpn", "tests/unit/cli", "tests/unit/choice/test_musts.py", "tests/unit/farm/test_farm_block.py")
OF_AN_INSTRUMENT = ("tests/unit/instruments", "tests/unit/sweep/test_experiments.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what git knows, or would: a stranger's clone with what is being worked on."""
    listed = run(ROOT, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name, follow_symlinks=False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_vpn_put_into_the_tree_passes_lint_and_tests(tree: Path) -> None:
    page = A_VPN.read_text()
    (declared,) = blocks(page)
    toy = (ROOT / "docs" / "examples" / "toy.py").read_text()
    (imported,) = re.findall(r"^`(from runner\.vpn\.declared import .+)`:$", page, re.MULTILINE)
    (row,) = re.findall(r"^```\n(\| `toy` .+\n)```$", page, re.MULTILINE)
    before, after = toy.split("from runner.vpn.plugin", 1)
    (tree / "vpns" / "toy.py").write_text(f"{before}{imported}\nfrom runner.vpn.plugin{after}\n\n{declared}")
    insert(tree / "docs" / "vpns.md", row, before="| `vtun` |")
    insert(tree / "README.md", "`toy`, ", before="`n2n`")
    update, ruff = (line for line in page.splitlines() if re.match(r"    (UPDATE_GOLDEN|\.venv/bin/ruff)", line))
    for command in (update, ruff):
        words = command.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
        subprocess.run(["bash", "-c", words], cwd=tree, check=False, capture_output=True)
    assert len([*(tree / "tests" / "golden").glob("toy-*.txt")]) == 2
    assert_clean(tree, ("vpns/toy.py",), OF_A_VPN, "toy or docs")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_instrument_put_into_the_tree_passes_lint_and_tests(tree: Path) -> None:
    page = AN_INSTRUMENT.read_text()
    (printed,) = blocks(page)
    for file in re.findall(r"^    cp (\S+) \.$", page, re.MULTILINE):
        shutil.copy(tree / file, tree)
    for source, target in re.findall(r"^    mv (\S+) (\S+)$", page, re.MULTILINE):
        shutil.move(tree / source, tree / target)
    (told,) = re.findall(r"`(tests/\S+\.py)`:\n\n```python\nPRINTED", page)
    text, changed = re.subn(r"^PRINTED: .*\n", lambda _: printed, (tree / told).read_text(), flags=re.MULTILINE)
    assert changed == 1
    (tree / told).write_text(text)
    added = ("runner/instruments/traffic/connect.py", "experiments/connecting.py")
    assert_clean(tree, added, OF_AN_INSTRUMENT, "connect or instrument")


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def insert(path: Path, text: str, before: str) -> None:
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, text + before, 1))


def assert_clean(tree: Path, files: tuple[str, ...], tests: tuple[str, ...], which: str) -> None:
    """`make lint`, and of `make test` what takes every file of the folder."""
    for tool in (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy", *files)):
        run(tree, sys.executable, "-m", *tool)
    run(tree, str(Path(sys.executable).parent / "lint-imports"), "--no-logo")
    run(tree, sys.executable, "-m", "tests.tools.rooms")  # `make rooms`: a file more may be the one that its sizes show
    run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", which)


def run(where: Path, *argv: str) -> str:
    done = subprocess.run(argv, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
    return done.stdout
