"""Two builds in real tunnels: the mechanism in the gate, the CI jobs of docs/ci and bisect in the watch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from runner.data.store import load_run
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL, trials_of, vpneval

CI = Path(__file__).parents[2] / "docs" / "ci"
FEW = "--reps 3 --rounds 4"  # rounds that a large difference needs, however long they take
SLOW = "tc qdisc replace dev wan0 root tbf rate 60mbit burst 32k latency 20ms\n"
# What stands for a compiler: it makes a program that shapes its WAN where the sources say so, and then is the image's.
GO = """#!/bin/sh
{ echo "#!/bin/sh"; cat source; echo 'exec /usr/libexec/wireguard-go "$@"'; } > wireguard-go; chmod +x wireguard-go
"""


def tree(folder: Path, before: str = "") -> Path:
    """A build as a directory: a program that runs ``before``, and then the image's own."""
    program = folder / "usr/local/sbin/wireguard-go"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n{before}exec /usr/bin/wireguard-go "$@"\n')
    program.chmod(0o755)
    return folder


def test_a_build_that_does_not_start_fails_now_and_the_image_s_own_does_not(image: Image, tmp_path: Path) -> None:
    broken = tmp_path / "wireguard-go"
    broken.write_text("#!/bin/sh\necho broken >&2; exit 7\n")
    broken.chmod(0o755)
    out = tmp_path / "run"
    done = vpneval(
        "run", "builds", "--build", f"wireguard_go={broken}", "--profile", "smallest", "--reps", 1, "--out", out
    )
    assert done.returncode == 1, done.stderr
    run, _ = load_run(out)
    assert {name: bool(record.build) for name, record in run.vpns.items()} == {
        "wireguard_go": False,
        "wireguard_go@new": True,
    }
    assert {trial.status for trial in trials_of(out, "wireguard_go")} == {"ok"}
    failed = trials_of(out, "wireguard_go@new")
    assert {trial.status for trial in failed} == {"failed"}
    assert "broken" in failed[0].reason
    assert "now failing" in done.stdout
    again = vpneval("compare", out, "--format", "junit")
    assert again.returncode == 1
    assert ElementTree.fromstring(again.stdout)[0].get("failures") == "2"
    other = vpneval("run", "builds", "--build", f"wireguard_go={tree(tmp_path / 'b')}", "--reps", 1, "--out", out)
    assert other.returncode == 2, "the folder has another build of this name"


def test_a_slow_build_is_found_and_a_twin_is_not(image: Image, tmp_path: Path) -> None:
    old, slow, twin = tree(tmp_path / "old"), tree(tmp_path / "slow", SLOW), tree(tmp_path / "twin")
    for new, codes in ((slow, {1}), (twin, {0})):
        builds = ("--build", f"wireguard_go@old={old}", "--build", f"wireguard_go@new={new}")
        out = tmp_path / f"run-{new.name}"
        done = vpneval("run", "builds", *builds, *FEW.split(), "--out", out)
        assert done.returncode in codes, done.stdout + done.stderr
        assert ("Significant regression" in done.stdout) is (codes == {1})


def sources(folder: Path, *commits: str) -> Path:
    """A bare repository with these sources of a program, a commit each, and a clone of it."""
    origin, clone = folder / "origin.git", folder / "clone"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    git(folder, "clone", "--quiet", str(origin), str(clone))
    git(clone, "checkout", "--quiet", "-b", "main")
    for number, text in enumerate(commits):
        (clone / "source").write_text(f"{text}# {number}\n")
        git(clone, "add", "source")
        git(clone, "commit", "--quiet", "-m", f"commit {number}")
    git(clone, "push", "--quiet", "origin", "HEAD~1:refs/heads/main")
    git(clone, "fetch", "--quiet")
    return clone


def git(where: Path, *words: str) -> str:
    me = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    done = subprocess.run(["git", *me, *words], cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def jobs() -> dict[str, list[str]]:
    """The steps of both jobs of the docs: name of the system -> its commands in order."""
    github, gitlab = (yaml.safe_load((CI / f"{name}.yml").read_text()) for name in ("github", "gitlab"))
    steps, job = github["jobs"]["regression"]["steps"], gitlab["regression"]
    return {
        "github": [step["run"] for step in steps if "run" in step],
        "gitlab": [*job["script"], *job["after_script"]],
    }


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_job_of_the_page_finds_a_slow_commit_in_a_clone_twice(image: Image, tmp_path: Path, system: str) -> None:
    clone, programs = sources(tmp_path, "", SLOW), tmp_path / "bin"
    programs.mkdir()
    for name, text in (("go", GO), ("vpneval", f'#!/bin/sh\nexec {sys.executable} -P -m runner "$@"\n')):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    for _ in range(2):  # a runner that is kept has what the job before has left
        ended = []
        for command in jobs()[system]:
            # A program in the place of the image's cannot run what it has taken the place of: the test gives trees.
            word = command.replace("/wireguard-go ", "/tree ").replace("--out pr", f"--out pr {FEW}")
            done = subprocess.run(["bash", "-ec", word], cwd=clone, env=environment, capture_output=True, text=True)
            for made in (clone, clone.parent / "old"):
                if (made / "wireguard-go").exists() and not (made / "tree").exists():
                    tree(made / "tree", (made / "source").read_text())
            ended.append((command, done.returncode, done.stderr))
        assert [code for command, code, _ in ended if "vpneval run" in command] == [1], ended
        assert not any(code for command, code, _ in ended if "vpneval" not in command), ended
        suite = ElementTree.parse(clone / "compare.xml").getroot()[0]
        assert int(suite.get("failures") or 0) >= 1
        if system == "github":
            assert "Significant regression" in summary.read_text()


def test_bisect_finds_the_commit(image: Image, tmp_path: Path) -> None:
    clone = sources(tmp_path, "", "", "false\n", SLOW, SLOW)
    build = "rm -rf tree; grep -q false source && exit 1; mkdir -p tree/usr/local/sbin; cd tree/usr/local/sbin; "
    build += "{ echo '#!/bin/sh'; cat ../../../../source; echo 'exec /usr/bin/wireguard-go \"$@\"'; } > wireguard-go; "
    build += "chmod +x wireguard-go"
    good = git(clone, "rev-parse", "HEAD~4")
    words = ("bisect", "wireguard_go=./tree", "--good", good, "--bad", "HEAD", "--build", build, "--deadline", "60s")
    done = subprocess.run(
        [*VPNEVAL[:1], "-P", *VPNEVAL[1:], *words, "--out", str(tmp_path / "runs")],
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 6, done.stdout + done.stderr
    assert "commit 2" in done.stdout, "which cannot be built, so that either may be it"
    assert "commit 3" in done.stdout
    assert "commit 1" not in done.stdout
    assert git(clone, "symbolic-ref", "--short", "HEAD") == "main"
