"""``vpneval tunnel``: what takes the place of a written tunnel, and what is refused."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.cli.commands.recipe.work import extension_of, tunnel_page
from runner.cli.commands.tunnel import work as tunnels
from runner.data.errors import UsageError
from runner.lab.shape.site_to_site import SITES
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import KeyMaker

PLUGIN = "from vpns.tinc import Tinc\n\n\nclass Mine(Tinc):\n    title = {title!r}\n"


def written(folder: Path, plugin: Path, title: str = "First") -> tunnels.Tunnel:
    """A tunnel of a plugin of one's own, with keys that nobody has made."""
    plugin.write_text(PLUGIN.format(title=title))
    vpn = load_vpn(str(plugin))
    keys = dict.fromkeys(vpn.secrets(KeyMaker(), SITES), "<key>")
    tunnel = tunnels.Tunnel(tunnels.name_to_load(vpn), dict(vpn.comparable), SITES, 30, secrets=keys)
    name = tunnels.write(vpn, tunnel, folder, print)
    return replace(tunnel, name=name)


def test_an_upgrade_has_the_keys_of_before_and_says_the_way_back(tmp_path: Path) -> None:
    first = written(tmp_path / "first", tmp_path / "mine.py")
    assert stat.S_IMODE((tmp_path / "first/tunnel.json").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="makes the same tunnel of it"):
        tunnels.write_next(tunnels.upgrade_of(tmp_path / "first"), tmp_path / "same", print)
    (tmp_path / "mine.py").write_text(PLUGIN.format(title="Second"))
    tunnels.write_next(tunnels.upgrade_of(tmp_path / "first"), tmp_path / "second", print)
    second = tunnels.read(tmp_path / "second")
    assert (second.secrets, second.replaces) == (first.secrets, first.name)
    assert second.name != first.name
    page = (tmp_path / "second/README.md").read_text()
    assert f"{second.name}-gw1/up.sh --replace {first.name}" in page
    back = f"ssh root@192.168.0.1 {first.name}-gw1/up.sh --replace {second.name}"
    assert back in page
    assert back in tunnels.rollback(tmp_path / "second")


def test_what_cannot_be_renewed_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    first = written(tmp_path / "first", tmp_path / "mine.py")
    with pytest.raises(UsageError, match="vpneval tunnel rekey"):
        tunnels.renewal_of(tmp_path / "first", None, print)
    with pytest.raises(UsageError, match=f"{first.name} is the first one"):
        tunnels.rollback(tmp_path / "first")
    with pytest.raises(UsageError, match=r"has no tunnel.json"):
        tunnels.read(tmp_path)
    kept = json.loads((tmp_path / "first/tunnel.json").read_text())
    kept["secrets"].pop(min(kept["secrets"]))
    (tmp_path / "first/tunnel.json").write_text(json.dumps(kept))
    with pytest.raises(UsageError, match="needs other keys now"):
        tunnels.upgrade_of(tmp_path / "first")
    (tmp_path / "first/tunnel.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        tunnels.read(tmp_path / "first")


def test_who_stays_keeps_the_keys_and_who_is_new_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_keys(vpn: Vpn, tunnel: tunnels.Tunnel, say: object) -> tunnels.Tunnel:
        return replace(
            tunnel,
            secrets=dict.fromkeys(vpn.secrets(KeyMaker(), tunnel.sites), " ".join(site.name for site in tunnel.sites)),
        )

    def inventory(*spokes: str) -> Path:
        tables = [f"[spoke.{name}]" for name in spokes]
        path = tmp_path / "sites.toml"
        path.write_text(
            "".join(
                f'{table}\naddress = "a{n}"\nwan_address = "192.0.2.{n}"\nnetwork = "10.{n}.0.0/24"\n'
                for n, table in enumerate(["[hub]", *tables], 1)
            )
        )
        return path

    monkeypatch.setattr("runner.cli.commands.recipe.work.with_keys", with_keys)
    monkeypatch.setattr("runner.cli.commands.recipe.work.begin", lambda: None)
    vpn = load_vpn("wireguard")
    tunnel_page(vpn, vpn.recommended, (inventory("berlin", "rome"), ""), 30, print, folder=tmp_path / "first")
    first, said = tunnels.read(tmp_path / "first"), list[str]()
    tunnels.write_next(
        extension_of(tmp_path / "first", inventory("berlin", "paris"), said.append), tmp_path / "next", print
    )
    second = tunnels.read(tmp_path / "next")
    keys = {name: f"{'berlin paris' if name == 'paris' else 'berlin rome'} hub" for name in ("hub", "berlin", "paris")}
    assert {name: second.secrets.get(f"{name}.key") for name in (*keys, "rome")} == {**keys, "rome": None}
    assert said == [f"rome is no longer there. What it had goes by this command on it: {first.name}-rome/down.sh"]
    page = (tmp_path / "next/README.md").read_text()
    for name, option in (("hub", f" --replace {first.name}"), ("berlin", f" --replace {first.name}"), ("paris", "")):
        assert f"{second.name}-{name}/up.sh{option}\n" in page
    assert any(line.endswith(f"{second.name}-paris/down.sh") for line in tunnels.rollback(tmp_path / "next"))
