"""Tab completion of what a value can be, as a shell asks for it."""

from __future__ import annotations

import re

import pytest

from runner.catalogue import GROUPS, experiment_names, vpn_names
from runner.cli.main import main
from runner.data.named import MUSTS, TRAFFICS


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("vpneval run ", {*experiment_names(), *GROUPS}),
        ("vpneval plan ciph", {name for name in experiment_names() if name.startswith("ciph")}),
        ("vpneval run cipher --vpn ", {*vpn_names()}),
        ("vpneval why tin", {"tinc"}),
        ("vpneval recipe tin", {"tinc"}),
        ("vpneval doctor --vpn openvpn,tin", {"openvpn,tinc"}),
        ("vpneval report results --traffic ", {*TRAFFICS}),
        ("vpneval more results --must nat,", {f"nat,{must}" for must in MUSTS}),
        ("vpneval run cipher --set driver=g", {"driver=generic"}),
    ],
)
def test_a_shell_is_offered_the_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, names: set[str]
) -> None:
    assert offered(capsys, monkeypatch, "complete_zsh" * ("=" in line), line) == names


def offered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str, line: str) -> set[str]:
    """What is offered to bash, whose words end at ``=``, or to a shell whose words do not."""
    if how == "complete_zsh":
        asks = {"_VPNEVAL_COMPLETE": how, "_TYPER_COMPLETE_ARGS": line}
    else:
        words = re.findall(r"=|[^\s=]+|(?<=\s)$", line)
        asks = {"COMP_WORDS": "\n".join(words).rstrip(), "COMP_CWORD": str(len(words) - 1)}
        asks["_VPNEVAL_COMPLETE"] = "complete_bash"
    for name, value in asks.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    out = capsys.readouterr().out
    return {*re.findall(r'"([^"]*)"', out)} if how == "complete_zsh" else {*out.split()}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("vpneval run cipher --set driver=g", {"generic"}),
        ("vpneval run cipher --set driver=", {"accelerated", "generic"}),
        ("vpneval run cipher --set wan=lan,driver=g", {"generic"}),
        ("vpneval run cipher --vpn=tin", {"tinc"}),
        ("vpneval run cipher --set wan=lan --vpn tin", {"tinc"}),
    ],
)
def test_bash_whose_words_end_at_the_equals_sign(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, names: set[str]
) -> None:
    assert offered(capsys, monkeypatch, "complete_bash", line) == names
