"""The Vagrantfile on paper: what it asks of Vagrant, and what it says where something is missing. It needs Ruby."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.lab.places.labfile import read_lab_file

ROOT = Path(__file__).parents[3]
LAB = ROOT / "vagrant" / "lab.yml"
# Vagrant as far as the file uses it: each call is a line.
VAGRANT = """
class Said
  def method_missing(name, *words, **named, &block)
    puts "#{name} #{words.join(" ")} #{named.map { |key, value| "#{key}=#{value}" }.join(" ")}".strip
    block.call(*[Said.new] * block.arity.abs) if block
    Said.new
  end
  def respond_to_missing?(*) = true
end
module Vagrant
  def self.has_plugin?(name) = ENV["PLUGIN"] != "no"
  def self.configure(version) = yield(Said.new)
end
if ENV["PLATFORM"]
  Object.send(:remove_const, :RUBY_PLATFORM)
  RUBY_PLATFORM = ENV["PLATFORM"]
end
"""
MISSING = "the plugin vagrant-libvirt is missing. Get it with: "


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without a virtual environment and without a box."""
    if shutil.which("ruby") is None:
        pytest.skip("Ruby, in which a Vagrantfile is written, is not installed")
    folder = tmp_path / "a" / "vpneval"
    (folder / "vagrant").mkdir(parents=True)
    shutil.copy(ROOT / "Vagrantfile", folder)
    shutil.copy(LAB, folder / "vagrant")
    (tmp_path / "vagrant.rb").write_text(VAGRANT)
    return folder


def loaded(folder: Path, *argv: str, where: Path | str = "", **environment: str) -> tuple[int, str]:
    """The exit code of the Vagrantfile and what it printed."""
    stub = next(parent / "vagrant.rb" for parent in folder.parents if (parent / "vagrant.rb").exists())
    ruby = ["ruby", "-r", str(stub), str(folder / "Vagrantfile"), *argv]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VAGRANT", "VPNEVAL"))}
    done = subprocess.run(
        ruby, cwd=where or folder, env=clean | environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_plain_checkout_makes_five_machines_of_the_public_box(checkout: Path) -> None:
    code, said = loaded(checkout, "up")
    assert code == 0, said
    assert [line for line in said.splitlines() if line.startswith("define ")] == [
        f"define {name}" for name in ("host1", "gw1", "wan", "gw2", "host2")
    ]
    assert said.count("private_network") == 8


@pytest.mark.parametrize("box", ["local", "public"])
def test_nothing_of_the_machines_can_be_reached_from_a_network(checkout: Path, box: str) -> None:
    """Cables of which this machine is no part, no port that it forwards, no bridge to a network of its own."""
    if box == "local":
        (checkout / "vagrant" / "box").mkdir()
        catalogue = {"name": "vpneval/trixie", "versions": [{"version": "1"}]}
        (checkout / "vagrant" / "box" / "catalogue.json").write_text(json.dumps(catalogue))
    code, said = loaded(checkout, "up")
    assert code == 0, said
    networks = [line for line in said.splitlines() if line.startswith("network ")]
    assert len(networks) == 8
    for line in networks:
        assert line.startswith("network private_network ")
        assert "libvirt__forward_mode=veryisolated" in line
        assert "libvirt__dhcp_enabled=false" in line
    assert "graphics_type= none" in said if box == "local" else "graphics_ip= 127.0.0.1" in said
    assert not {"forwarded_port", "public_network", "forward_ssh_port=", "management_network_mode="} & {*said.split()}


def test_the_public_box_is_of_one_version(checkout: Path) -> None:
    pinned = re.search(r"^public_box: (debian/trixie64)@(13\.[0-9]{8}\.[0-9]+)$", LAB.read_text(), re.MULTILINE)
    assert pinned, "whoever has the box's name could change what runs here"
    code, said = loaded(checkout, "up")
    assert code == 0, said
    assert {f"box= {pinned[1]}", f"box_version= {pinned[2]}"} <= {*said.splitlines()}


@pytest.mark.parametrize(("box", "version"), [("bento/debian-13@202510.26.0", "202510.26.0"), ("bento/debian-13", "")])
def test_a_box_of_ones_own_may_have_a_version(checkout: Path, box: str, version: str) -> None:
    (checkout / "own.yml").write_text(re.sub(r"^box: auto$", f"box: {box}", LAB.read_text(), flags=re.MULTILINE))
    code, said = loaded(checkout, "up", VPNEVAL_LAB_YML="own.yml")
    assert code == 0, said
    assert "box= bento/debian-13\n" in said
    assert re.findall(r"box_version= (.*)", said) == ([version] if version else [])
    assert read_lab_file(checkout / "own.yml").settings["box"] == box


@pytest.mark.parametrize(("says", "mode"), [("kvm", "host-passthrough"), ("qemu", "maximum")])
def test_vpneval_says_whether_kvm_runs_a_guest(checkout: Path, says: str, mode: str) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho something else >&2\necho {says}\n")
    python.chmod(0o755)
    code, said = loaded(checkout, "up")
    assert code == 0, said
    assert {f"driver= {says}", f"cpu_mode= {mode}"} <= {*said.splitlines()}


def test_two_checkouts_of_one_name_share_no_machine_and_no_cable(checkout: Path) -> None:
    other = checkout.parents[1] / "b" / "vpneval"
    shutil.copytree(checkout, other)
    names = [
        {word for word in loaded(folder, "up")[1].split() if word.startswith(("libvirt__network_name", "vpneval-"))}
        for folder in (checkout, other)
    ]
    assert len(names[0]) == len(names[1]) == 5, "four networks, and the prefix of the machines"
    assert not names[0] & names[1]


def test_a_relative_lab_file_is_one_place(checkout: Path) -> None:
    text = (checkout / "vagrant" / "lab.yml").read_text()
    (checkout / "own.yml").write_text(text.replace("memory_mib: 512", "memory_mib: 768"))
    (checkout / "docs").mkdir()
    for where in (checkout, checkout / "docs", checkout.parent):
        code, said = loaded(checkout, "up", where=where, VPNEVAL_LAB_YML="own.yml")
        assert (code, "memory= 768" in said) == (0, True), where


@pytest.mark.parametrize(
    ("argv", "environment", "says"),
    [
        (("up", "--provider", "virtualbox"), {}, "the provider virtualbox does not work"),
        (("up", "--provider=vmware_desktop"), {}, "the provider vmware_desktop does not work"),
        (("up",), {"VAGRANT_DEFAULT_PROVIDER": "virtualbox"}, "VirtualBox has not been tried"),
        (("up",), {"PLATFORM": "arm64-darwin23"}, "need Linux with libvirt, and this is arm64-darwin23"),
        (("up",), {"PLUGIN": "no", "VAGRANT_INSTALLER_EMBEDDED_DIR": "/opt"}, MISSING + "vagrant plugin install"),
        (("up",), {"PLUGIN": "no"}, MISSING),
        (("up",), {"VPNEVAL_LAB_YML": "nowhere.yml"}, "vpneval/nowhere.yml: No such file"),
    ],
)
def test_what_is_missing_is_said_before_a_machine_starts(
    checkout: Path, argv: tuple[str, ...], environment: dict[str, str], says: str
) -> None:
    code, said = loaded(checkout, *argv, **environment)
    assert code != 0
    assert says in said
    assert "define" not in said
    assert "Error" not in said


def test_a_provider_that_is_the_right_one_is_none_of_these(checkout: Path) -> None:
    assert loaded(checkout, "up", "--provider=libvirt", VAGRANT_DEFAULT_PROVIDER="libvirt")[0] == 0


def test_one_command_compares_in_the_machines_without_an_image_of_this_one() -> None:
    planned = subprocess.run(
        ["make", "-n", "-B", "compare", "LAB=vagrant", "OUT=results/vms", "PYTHON=python3"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "--lab vagrant:up" in planned
    assert "vpneval image" not in planned
    assert "mmdebstrap" not in planned
    assert "--rest" not in planned
