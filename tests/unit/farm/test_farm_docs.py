"""What docs/farm.md tells people to write down is what Kubernetes, SLURM and Dask take."""

import ast
import re
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml
from dask_jobqueue.slurm import SLURMCluster
from distributed.cli import dask_scheduler, dask_worker

from tests.lab.test_farm import certificates

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "farm.md").read_text()
(CONFIG,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MANIFEST, SLURM = ((DOCS / "farm" / name).read_text() for name in ("vpneval-farm.yaml", "slurm.py"))
PLACES = {"ca.pem", "node.pem", "node-key.pem"}


def deployed() -> dict[str, Any]:
    """Kind -> object of the manifest."""
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST)}


def container(kind: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = deployed()[kind]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_file_of_every_machine_gives_one_lab_and_tls() -> None:
    found = yaml.safe_load(CONFIG)["distributed"]
    assert found["worker"]["resources"] == {"lab": 1}
    assert found["comm"]["require-encryption"] is True
    tls = found["comm"]["tls"]
    files = {tls["ca-file"], *(path for who in ("scheduler", "worker", "client") for path in tls[who].values())}
    assert files == {f"/etc/vpneval/{name}" for name in PLACES}
    made = re.search(r"kubectl create secret generic vpneval-tls (.*)", PAGE)
    assert made
    assert set(re.findall(r"--from-file=(\S+)", made[1])) == PLACES


def test_the_manifest_has_a_scheduler_a_service_and_a_worker_on_each_node() -> None:
    found = deployed()
    assert found.keys() == {"Deployment", "Service", "DaemonSet"}
    for kind in ("Deployment", "DaemonSet"):
        spec = found[kind]["spec"]
        assert found[kind]["apiVersion"] == "apps/v1"
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    service = found["Service"]
    assert service["spec"]["selector"] == found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["ports"] == [{"port": 8786, "targetPort": 8786}]
    assert f"tls://{service['metadata']['name']}:8786" in container("DaemonSet")["command"]
    labels = found["DaemonSet"]["spec"]["template"]["spec"]["nodeSelector"]
    assert all(f"{name}={value}" in PAGE for name, value in labels.items())


def test_the_workers_pod_can_have_a_lab() -> None:
    worker = container("DaemonSet")
    assert worker["securityContext"] == {"privileged": True}
    assert worker["env"] == [
        {"name": "VPNEVAL_MACHINE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    volumes = {one["name"]: one for one in deployed()["DaemonSet"]["spec"]["template"]["spec"]["volumes"]}
    kept = [one["mountPath"] for one in worker["volumeMounts"] if "hostPath" in volumes[one["name"]]]
    assert "/var/cache/vpneval" in kept
    assert volumes["cache"]["hostPath"]["path"] == "/var/cache/vpneval"


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_every_pod_has_the_file_and_the_certificates(kind: str) -> None:
    volumes = {one["name"]: one for one in deployed()[kind]["spec"]["template"]["spec"]["volumes"]}
    mounts = {one["mountPath"]: volumes[one["name"]] for one in container(kind)["volumeMounts"]}
    assert mounts.keys() <= {"/etc/dask", "/etc/vpneval", "/var/cache/vpneval", "/lib/modules"}
    assert mounts["/etc/dask"]["configMap"]["name"] == "vpneval-dask"
    assert mounts["/etc/vpneval"]["secret"] == {"secretName": "vpneval-tls", "defaultMode": 0o400}


@pytest.mark.parametrize(("kind", "program"), [("Deployment", dask_scheduler), ("DaemonSet", dask_worker)])
def test_dask_takes_the_commands_of_the_manifest(kind: str, program: Any) -> None:
    program_of, name, *argv = container(kind)["command"]
    assert (program_of, name) == ("dask", program.__name__.rpartition("_")[2])
    program.main.make_context(f"dask {name}", argv)


def test_the_script_of_slurm_asks_for_a_node_and_starts_a_worker_with_a_lab(tmp_path: Path) -> None:
    """The arguments of the program, given to dask-jobqueue, in the script that SLURM would get."""
    calls = [one for one in ast.walk(ast.parse(SLURM)) if isinstance(one, ast.Call)]
    (call,) = (one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "SLURMCluster")
    asked = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    certificates(tmp_path)
    known = yaml.safe_load((tmp_path / "dask.yaml").read_text())
    whole = dask.config.merge(dask.config.config, known)
    with dask.config.set(whole), SLURMCluster(**asked | {"shared_temp_directory": str(tmp_path)}) as cluster:
        script = cluster.job_script()
    assert "#SBATCH --exclusive" in script
    assert "#SBATCH -t 12:00:00" in script
    assert "--resources lab=1" in script
    assert "--nthreads 2" in script
    assert "tls://" in script
