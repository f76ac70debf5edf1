"""Why a machine cannot be reached, or its user not become root, where ssh(1) and sudo(8) say too little."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.node import wait_until
from runner.lab.places import open_rig
from runner.lab.software.image import Image
from tests.lab.sites import BOXES, TwoSites, two_sites
from tests.lab.test_ssh_lab import with_sudo

pytestmark = pytest.mark.timeout(120)


def refusal(boxes: TwoSites, **gw1: object) -> str:
    """What a lab says of the first gateway with these settings."""
    with pytest.raises(CannotRunHere) as refused:
        open_rig(f"site:{boxes.sites({'gw1': gw1})}", print).__enter__()
    return str(refused.value)


@pytest.fixture
def locked(boxes: TwoSites) -> Iterator[Path]:
    """A key with a passphrase, with which the first gateway lets one in."""
    key = boxes.folder / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", key], check=True)
    allowed, gateway = "/root/.ssh/authorized_keys", boxes.nodes["gw1"]
    before = gateway.run("cat", allowed).stdout
    gateway.write(allowed, before + Path(f"{key}.pub").read_text())
    yield key
    gateway.write(allowed, before)
    for file in boxes.folder.glob("locked*"):
        file.unlink()


@pytest.mark.smoke
def test_a_key_with_a_passphrase_needs_an_agent(boxes: TwoSites, locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(boxes.folder / "agent"))
    said = refusal(boxes, identity="locked")
    assert f"The key {locked} has a passphrase, and vpneval asks for none" in said
    assert f"ssh-add {locked}" in said
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", boxes.folder / "agent"], stdout=subprocess.DEVNULL)
    try:
        asked = {"SSH_ASKPASS": str(boxes.folder / "say"), "SSH_ASKPASS_REQUIRE": "force"}
        (boxes.folder / "say").write_text("#!/bin/sh\necho secret\n")
        (boxes.folder / "say").chmod(0o700)
        for name, value in asked.items():
            monkeypatch.setenv(name, value)
        wait_until((boxes.folder / "agent").exists, "an agent", 10)
        subprocess.run(["ssh-add", "-q", locked], check=True, timeout=20, stderr=subprocess.DEVNULL)
        with open_rig(f"site:{boxes.sites({'gw1': {'identity': 'locked'}})}", print):
            locked.unlink()  # its public part is enough for the agent
        with open_rig(f"site:{boxes.sites({'gw1': {'identity': 'locked'}})}", print):
            pass
    finally:
        agent.terminate()
        agent.wait()


@pytest.mark.smoke
def test_a_key_that_is_not_there_or_that_others_may_read(boxes: TwoSites) -> None:
    assert f"gw1: identity names {boxes.folder}/nowhere, which is not there" in refusal(boxes, identity="nowhere")
    assert f"gw1: config names {boxes.folder}/nowhere, which" in refusal(boxes, config="nowhere")
    copy = boxes.folder / "copy"
    copy.write_text((boxes.folder / "key").read_text())
    copy.chmod(0o644)
    assert f"Others may read the key {copy}, so ssh does not use it: chmod 600 {copy}" in refusal(
        boxes, identity="copy"
    )
    copy.chmod(0o600)
    with open_rig(f"site:{boxes.sites({'gw1': {'identity': 'copy'}})}", print):
        pass


@pytest.mark.smoke
def test_a_quiet_configuration_hides_no_reason(boxes: TwoSites) -> None:
    (boxes.folder / "quiet").write_text("LogLevel QUIET\n")
    said = refusal(boxes, config="quiet", user="nobody-there")
    assert "gw1 cannot be reached: nobody-there@10.0.0.2: Permission denied" in said


def test_sudo_that_wants_a_terminal(image: Image, tmp_path: Path) -> None:
    with two_sites(image, tmp_path, root=with_sudo(image)) as boxes:
        for name in BOXES:
            node = boxes.nodes[name]
            node.run("useradd", "-m", "-s", "/bin/sh", "tester")
            node.run("mv", "/root/.ssh", "/home/tester/")
            node.run("chown", "-R", "tester:tester", "/home/tester/.ssh")
            node.write("/etc/sudoers.d/a-company", "Defaults requiretty\ntester ALL=(ALL) NOPASSWD: ALL\n", 0o440)
        inventory = f"site:{boxes.sites({name: {'user': 'tester'} for name in BOXES})}"
        with pytest.raises(CannotRunHere, match="tty") as refused:
            open_rig(inventory, print).__enter__()
        for name, line in zip(BOXES, str(refused.value).splitlines(), strict=True):
            advice = line.partition("as root: ")[2].partition(" (and:")[0]
            assert "'Defaults:tester !requiretty'" in advice
            boxes.nodes[name].run("sh", "-c", advice)
        with open_rig(inventory, print):
            pass
