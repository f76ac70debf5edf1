"""The Vagrant lab for real: five virtual machines, every VPN, a ranking, and nothing left; wrong input; kill -9."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from runner.data.scale import no_scale
from runner.data.store import load_run
from runner.lab.node import wait_until
from tests.vagrant.conftest import enclosed, lab_file
from tests.vagrant.story import phase, said, trials, why

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
KERNEL = {"ipip": "IPIP", "ipsec": "ESP", "gre_ipsec": "ESP", "wireguard": "WireGuard"}
USERSPACE = {"ipsec_user", "openvpn", "ssh_forward", "ssh_tun", "wireguard_go"}


def processes_in(root: int) -> set[int]:
    """``root`` and everything that descends from it, as this machine numbers them."""
    found, fresh = {root}, [root]
    while fresh:
        parent = fresh.pop()
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            children = {int(pid) for pid in listed.read_text().split()}
            fresh += children - found
            found |= children
    return found


def test_vagrant_up_makes_the_five_machines(results: Path) -> None:
    assert phase(results, "up") == 0, said(results, "up")
    assert said(results, "nodes").count("running (libvirt)") == 5


@pytest.mark.parametrize("experiment", ["transport", "cipher", "compression"])
def test_no_trial_fails(results: Path, experiment: str) -> None:
    assert phase(results, experiment) == 0, said(results, experiment)
    found = trials(results / "run", experiment)
    assert set(found) == {"none", *KERNEL, *USERSPACE}
    assert {trial.status for trial in found.values()} <= {"ok", "unsupported"}


@pytest.mark.parametrize("vpn", sorted([*KERNEL, *USERSPACE]))
def test_every_vpn_carries_traffic(results: Path, vpn: str) -> None:
    trial = trials(results / "run", "transport")[vpn]
    assert trial.status == "ok", why(results / "run", trial)
    assert trial.proof is not None
    assert trial.proof.delivered
    assert trial.evidence is not None
    assert trial.evidence.data_path.startswith("kernel" if vpn in KERNEL else "userspace")
    assert {m.metric: m.value for m in trial.measurements}["tcp_throughput"] > 0


@pytest.mark.parametrize("vpn", sorted(KERNEL))
def test_the_kernel_vpns_run_in_the_guests_kernel(results: Path, vpn: str) -> None:
    evidence = trials(results / "run", "transport")[vpn].evidence
    assert evidence is not None
    assert KERNEL[vpn].lower() in evidence.data_path.lower()


@pytest.mark.parametrize(
    ("experiment", "factor", "level", "vpns"),
    [
        ("cipher", "cipher", "chacha20-poly1305", {"ipsec", "gre_ipsec", "openvpn", "ssh_tun", "wireguard"}),
        ("compression", "compression", "on", {"ipsec", "openvpn", "ssh_forward", "ssh_tun"}),
    ],
)
def test_the_sweeps_levels_are_measured(
    results: Path, experiment: str, factor: str, level: str, vpns: set[str]
) -> None:
    found = trials(results / "run", experiment)
    assert {vpn for vpn in vpns if found[vpn].status == "ok"} == vpns, {v: found[v].reason for v in vpns}
    assert {found[vpn].params[factor] for vpn in vpns} == {level}


def test_the_lab_is_what_was_measured(results: Path) -> None:
    run, _ = load_run(results / "run")
    assert run.lab["kind"] == "vagrant"
    assert run.lab["kernel"] != os.uname().release


def test_it_ends_in_a_ranking(results: Path) -> None:
    assert phase(results, "report") == 0, said(results, "report")
    report = json.loads((results / "report.out").read_text())
    standings = [standing for ranking in report["judgements"]["rank"]["rankings"] for standing in ranking["standings"]]
    ranked = {standing["vpn"] for standing in standings if standing["place"] is not None}
    compared = {*KERNEL} - {"ipip"} | (set() if no_scale(load_run(results / "run")[0]) else USERSPACE)
    assert ranked == compared


def test_machines_without_kvm_are_no_scale_for_data_planes(results: Path) -> None:
    run, _ = load_run(results / "run")
    machines = run.lab["machines"]
    assert all(machine["calibration"].keys() == {"system_call_us", "packet_us"} for machine in machines.values())
    emulated = [name for name, machine in machines.items() if machine["virtualization"] == "qemu"]
    found = no_scale(run)
    assert (found.machines if found else []) == emulated


def test_a_machine_that_dies_ends_the_run_with_the_cause(results: Path) -> None:
    assert phase(results, "dies") == 4, said(results, "dies")
    (trial,) = load_run(results / "dies")[1]
    assert trial.status == "lab_error"
    assert "gw2 (gw2) does not answer any more" in trial.reason
    assert "vagrant status says: shutoff" in trial.reason
    assert "Traceback" not in said(results, "dies")


@pytest.mark.parametrize("machine", ["host1", "gw1", "wan", "host2"])
def test_nothing_stays_up_on_the_machines_that_are_left(results: Path, machine: str) -> None:
    assert phase(results, f"traces-{machine}") == 0
    traces = said(results, f"traces-{machine}")
    assert "eth1" in traces, "its port is back"
    assert "sshd" in traces, "the control: processes are seen"
    assert not re.search(r"python3|iperf3", traces), "an agent, a probe or a server is left"


def test_destroy_takes_all_down(results: Path) -> None:
    assert phase(results, "destroy") == 0, said(results, "destroy")
    assert said(results, "left").split() == []


@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"driver": "xen"}, "unknown driver 'xen'. Valid: auto, kvm, qemu"),
        ({"cpus": "many"}, "cpus is a whole number from 1 on, not 'many'"),
        ({"cpus": "[1"}, "not understood: 'cpus: [1'"),
        ({"box": "local"}, "the local box is not built; build it with: make box"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(tmp_path: Path, changed: dict[str, str], complaint: str) -> None:
    lab = lab_file(tmp_path, **changed)
    (tmp_path / "Vagrantfile").write_text((PROJECT / "Vagrantfile").read_text())  # a folder without a box
    (tmp_path / ".venv").symlink_to(PROJECT / ".venv")
    done = enclosed("env", f"VAGRANT_CWD={tmp_path}", "vagrant", "status", lab=lab)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(
    ("spec", "changed", "code", "complaint"),
    [
        (
            "vagrant:up",
            {"box": "local"},
            3,
            "vagrant up says: vpneval: the local box is not built; build it with: make",
        ),
        ("vagrant", {"box": "auto"}, 3, "not all virtual machines are up; start them with: vagrant up (in "),
        ("vagrant", {"driver": "xen"}, 2, "lab.yml:5: unknown driver 'xen'. Valid: auto, kvm, qemu"),
    ],
)
def test_the_runner_says_it_too(tmp_path: Path, spec: str, changed: dict[str, str], code: int, complaint: str) -> None:
    lab = lab_file(tmp_path, **changed)
    (tmp_path / "Vagrantfile").write_text((PROJECT / "Vagrantfile").read_text())
    run = (str(PROJECT / ".venv/bin/vpneval"), "run", "reference", "--out", str(tmp_path / "run"), "--lab", spec)
    done = enclosed("env", "-C", str(tmp_path), *run, lab=lab)
    assert done.returncode == code, done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists(), "nothing was begun"


@pytest.mark.usefixtures("libvirt")
def test_kill_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [str(HERE / "enclosure.sh"), "bash", "-c", "virsh net-define net.xml && virsh net-start n && echo up; cat"],
        cwd=network_in(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as enclosure:
        assert enclosure.stdout is not None
        assert "up\n" in iter(enclosure.stdout.readline, ""), "the enclosed network did not come up"
        inside = processes_in(enclosure.pid)
        names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in inside}
        assert {"libvirtd", "dnsmasq"} <= names
        os.kill(enclosure.pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside), "the end of all processes")
    assert "vpneval-kill" not in Path("/proc/net/dev").read_text()


def network_in(folder: Path) -> Path:
    """A folder with net.xml, a libvirt network with DHCP: its dnsmasq leaves the group and the session it came from."""
    (folder / "net.xml").write_text(
        "<network><name>n</name><bridge name='vpneval-kill'/><ip address='192.0.2.1' netmask='255.255.255.0'>"
        "<dhcp><range start='192.0.2.2' end='192.0.2.9'/></dhcp></ip></network>"
    )
    return folder
