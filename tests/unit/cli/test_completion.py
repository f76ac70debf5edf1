"""Tab completion of what a value can be, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runner.catalogue import experiment_names, vpn_names
from runner.data.named import MUSTS, TRAFFICS


def completed(line: str) -> set[str]:
    """What a shell is offered behind this line."""
    shell = {"_VPNEVAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    argv = [sys.executable, "-m", "runner"]
    done = subprocess.run(argv, env=os.environ | shell, capture_output=True, text=True, timeout=60, check=False)
    return {*done.stdout.split()}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("vpneval run ", {*experiment_names()}),
        ("vpneval plan ciph", {name for name in experiment_names() if name.startswith("ciph")}),
        ("vpneval run cipher --vpn ", {*vpn_names()}),
        ("vpneval why tin", {"tinc"}),
        ("vpneval recipe tin", {"tinc"}),
        ("vpneval report results --traffic ", {*TRAFFICS}),
        ("vpneval more results --must nat,", {f"nat,{must}" for must in MUSTS}),
        ("vpneval run cipher --set driver=g", {"driver=generic"}),
    ],
)
def test_a_shell_is_offered_the_names(line: str, names: set[str]) -> None:
    assert names
    assert names <= completed(line)


def test_of_several_names_the_last_is_completed() -> None:
    assert completed("vpneval doctor --vpn openvpn,tin") == {"openvpn,tinc"}
