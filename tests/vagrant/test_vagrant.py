"""The Vagrant lab for real: five virtual machines, every VPN, a ranking, and nothing left; wrong input; kill -9."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from runner.model import Trial
from runner.node import wait_until
from runner.store import load_run

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
LAB = PROJECT / "vagrant" / "lab.yml"
KERNEL = {"ipip": "IPIP", "ipsec": "ESP", "gre_ipsec": "ESP", "wireguard": "WireGuard"}
USERSPACE = {"ipsec_user", "openvpn", "ssh_forward", "ssh_tun", "wireguard_go"}


def lab_file(folder: Path, **changed: object) -> Path:
    """The project's lab.yml with some entries changed."""
    text = LAB.read_text()
    for key, value in changed.items():
        text, found = re.subn(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
        assert found == 1, key
    path = folder / "lab.yml"
    path.write_text(text)
    return path


def enclosed(*argv: str, lab: Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command beside a libvirtd of its own, in namespaces of their own."""
    return subprocess.run(
        [str(HERE / "enclosure.sh"), *argv],
        env={**os.environ, "VPNEVAL_LAB_YML": str(lab)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


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


@pytest.fixture(scope="module")
def results(box: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole story, told once: up, three experiments, report, destroy."""
    folder = tmp_path_factory.mktemp("story")
    lab = lab_file(folder, driver="qemu", box="local", boot_timeout_s=1800)
    interfaces = sorted(os.listdir("/sys/class/net"))
    told = enclosed(str(HERE / "story.sh"), str(folder), lab=lab, timeout_s=3600)
    (folder / "phases").write_text(told.stdout)
    print(told.stdout, told.stderr)
    assert sorted(os.listdir("/sys/class/net")) == interfaces, "an interface of the lab is on the host"
    return folder


def phase(results: Path, name: str) -> int:
    """The exit code of a phase of the story."""
    lines = [line.split() for line in (results / "phases").read_text().splitlines()]
    return next(int(code) for _, phase, _, code in lines if phase == name)


def said(results: Path, name: str) -> str:
    return (results / f"{name}.out").read_text() + (results / f"{name}.err").read_text()


def trials(results: Path, experiment: str) -> dict[str, Trial]:
    """The experiment's trials by VPN: one level and one repetition each."""
    return {trial.vpn: trial for trial in load_run(results / experiment)[1]}


@pytest.mark.timeout(3600)
def test_vagrant_up_makes_the_five_machines(results: Path) -> None:
    assert phase(results, "up") == 0, said(results, "up")
    assert said(results, "nodes").count("running (libvirt)") == 5


@pytest.mark.parametrize("experiment", ["transport", "cipher", "compression"])
def test_no_trial_fails(results: Path, experiment: str) -> None:
    assert phase(results, experiment) == 0, said(results, experiment)
    assert {trial.status for trial in trials(results, experiment).values()} <= {"ok", "unsupported"}


@pytest.mark.parametrize("vpn", sorted([*KERNEL, *USERSPACE]))
def test_every_vpn_carries_traffic(results: Path, vpn: str) -> None:
    trial = trials(results, "transport")[vpn]
    assert trial.status == "ok", trial.reason
    assert trial.proof is not None
    assert trial.proof.delivered
    assert trial.evidence is not None
    assert trial.evidence.data_path.startswith("kernel" if vpn in KERNEL else "userspace")
    assert {m.metric: m.value for m in trial.measurements}["tcp_throughput"] > 0


@pytest.mark.parametrize("vpn", sorted(KERNEL))
def test_the_kernel_vpns_run_in_the_guests_kernel(results: Path, vpn: str) -> None:
    evidence = trials(results, "transport")[vpn].evidence
    assert evidence is not None
    assert KERNEL[vpn].lower() in evidence.data_path.lower()


def test_the_lab_is_what_was_measured(results: Path) -> None:
    run, _ = load_run(results / "transport")
    assert run.lab["kind"] == "vagrant"
    assert run.lab["kernel"] != os.uname().release


def test_it_ends_in_a_ranking(results: Path) -> None:
    assert phase(results, "report") == 0, said(results, "report")
    report = json.loads((results / "report.out").read_text())
    standings = [standing for ranking in report["rankings"] for standing in ranking["standings"]]
    ranked = {standing["vpn"] for standing in standings if standing["place"] is not None}
    assert {*KERNEL, *USERSPACE} - {"ipip"} <= ranked


def test_destroy_takes_all_down(results: Path) -> None:
    assert phase(results, "destroy") == 0, said(results, "destroy")
    assert said(results, "left").split() == []


@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"driver": "xen"}, 'unknown driver "xen"; valid: auto, kvm, qemu'),
        ({"box": "local"}, "the local box is not built; build it with: make box"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(tmp_path: Path, changed: dict[str, str], complaint: str) -> None:
    lab = lab_file(tmp_path, **changed)
    (tmp_path / "Vagrantfile").write_text((PROJECT / "Vagrantfile").read_text())  # a folder without a box
    done = enclosed("env", f"VAGRANT_CWD={tmp_path}", "vagrant", "status", lab=lab)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Error" not in done.stderr


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
