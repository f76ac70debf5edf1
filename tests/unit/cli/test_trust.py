"""What a run folder asks for beside vpneval's own is used where the user has named it, and never what lies in it."""

import sys
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.data.asked import AskedFarm, AskedRun
from runner.data.trust import wants
from tests.unit.cli.test_more import CapSys, Conducted, conducted, stored
from tests.unit.synthetic import realistic_run

__all__ = ["conducted"]  # a fixture

EVIL = """import pathlib
pathlib.Path("OWNED").touch()
from vpns.openvpn import OpenVpn
class Mine(OpenVpn):
    title = "mine"
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path_factory.mktemp("cache")))


def vpneval(capsys: CapSys, *argv: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([*argv])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out + err


@pytest.mark.parametrize(
    "asked",
    [
        "--vpn openvpn,./evil.py",
        "--vpn ./evil.py@2",
        "--vpn ./evil.py@2@3",
        "--instrument ./evil.py",
        "./evil.py",
        "--build openvpn@new=./evil.py",
        "--build ./evil.py@new=/bin/true",
        "--lab site:evil.py",
        "--lab ssh:evil.py",
        "--weights evil.py.toml",
        "--farm tcp://192.0.2.1:8786",
    ],
)
def test_what_a_folder_asks_for_is_listed_and_not_used(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted, asked: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["vpneval", "more"])
    Path("evil.py").write_text(EVIL)
    folder = stored(realistic_run(3), f"vpneval run transport {asked}")
    code, said = vpneval(capsys, "more", str(folder), "--deadline", "5m")
    assert code == 2
    assert "asks for what is not vpneval's own" in said
    assert "vpneval more results/mine --trust " in said
    assert not Path("OWNED").exists()
    assert not hasattr(conducted, "asked")


def test_it_is_asked_for_once(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted) -> None:
    monkeypatch.setattr(sys, "argv", ["vpneval", "more"])
    Path("evil.py").write_text(EVIL)
    folder = stored(realistic_run(3), "vpneval run transport --vpn openvpn,./evil.py")
    goes_on = ("more", str(folder), "--deadline", "5m")
    assert vpneval(capsys, *goes_on, "--trust", "elsewhere")[0] == 2
    assert vpneval(capsys, *goes_on, "--trust", "evil.py") == (0, "")
    assert Path("OWNED").exists(), "the control: this is what the file does"
    assert vpneval(capsys, *goes_on) == (0, "")
    Path("evil.py").write_text(EVIL + "# another file now\n")
    assert vpneval(capsys, *goes_on)[0] == 2
    assert vpneval(capsys, *goes_on, "--trust", ".") == (0, ""), "a folder stands for what is below it"


def test_a_file_that_run_has_named_is_not_asked_for(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    Path("mine.py").write_text(EVIL)
    folder = stored(realistic_run(3), "vpneval run transport --vpn openvpn,./mine.py")
    command = ("run", "transport", "--vpn", "openvpn,./mine.py", "--out", "new", "--reps", "1")
    monkeypatch.setattr(sys, "argv", ["vpneval", *command])
    assert vpneval(capsys, *command)[0] == 0
    assert vpneval(capsys, "more", str(folder), "--deadline", "5m") == (0, "")


@pytest.mark.parametrize("named", ["results/mine/evil.py", "link.py", "results/../results/mine/evil.py"])
def test_nothing_in_the_run_folder_is_used_whoever_trusts_it(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted, named: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["vpneval", "more"])
    folder = stored(realistic_run(3), f"vpneval run transport --vpn openvpn,{named}")
    (folder / "evil.py").write_text(EVIL)
    Path("link.py").symlink_to("results/mine/evil.py")
    code, said = vpneval(capsys, "more", str(folder), "--deadline", "5m", "--trust", str(folder), "--trust", named)
    assert code == 2
    assert "in the run folder itself" in said
    assert not Path("OWNED").exists()


def test_a_run_of_vpnevals_own_wants_nothing() -> None:
    assert wants(AskedRun(experiments=("transport",), vpns=("openvpn", "nebula@1.10"), weights="rtt=1")) == []
    assert wants(AskedRun(experiments=("transport",), farm=AskedFarm(address="local:2"))) == []


def test_a_recipe_is_of_a_vpn_of_the_catalogue(capsys: CapSys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the run calls the VPN that it names."""
    import questions.choose.judge as choosing

    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(EVIL)
    folder = stored(realistic_run(3))

    class Said:
        named = ("evil.py",)

    class Made:
        answer, kin = Said, ()

    monkeypatch.setattr(choosing, "choice", lambda *_: Made)
    monkeypatch.setattr("questions.choose.words.headline", lambda _: "Take evil.py")
    code, said = vpneval(capsys, "recipe", "--run", str(folder), "--line", "100M")
    assert code == 2
    assert "names evil.py, which is no VPN of this vpneval" in said
    assert not Path("OWNED").exists()
