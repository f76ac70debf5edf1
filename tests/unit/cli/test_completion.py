"""Tab completion of what a value can be, as a shell asks for it."""

from __future__ import annotations

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
    asks = {"_VPNEVAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    for name, value in asks.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert {*capsys.readouterr().out.split()} == names
