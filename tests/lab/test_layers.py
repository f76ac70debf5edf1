"""Layers: built in a view of the image that goes, unpacked on a gateway, and missed in words that help."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere
from runner.lab.shape.site_to_site import Lab
from runner.lab.software import layers
from runner.lab.software.image import Image, open_image
from runner.tunnel.bring_up import equip
from tests.lab.conftest import mounts

pytestmark = pytest.mark.smoke

TOY = 'mkdir -p "$1/usr/bin"\nprintf "#!/bin/sh\\necho toy\\n" > "$1/usr/bin/toy"\nchmod 755 "$1/usr/bin/toy"\n'


@pytest.fixture
def recipes(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recipes and a cache of the test's own."""
    (tmp_path / "recipes").mkdir()
    monkeypatch.setattr(layers, "SCRIPTS", tmp_path / "recipes")
    monkeypatch.setattr(layers, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "recipes"


def test_a_layer_is_built_once_and_unpacked_on_a_gateway(lab: Lab, recipes: Path) -> None:
    (recipes / "toy.sh").write_text(TOY)
    gateway, said = lab.nodes["gw1"], list[str]()
    why = layers.unpack(gateway, "toy")
    assert why == "its layer is not built; build it with: vpneval image trixie --layer toy, or by run --install"
    assert layers.digest("toy", "trixie") == ""
    before = mounts()
    built = layers.build("toy", "trixie", said.append)
    assert mounts() == before
    assert layers.build("toy", "trixie", said.append) == built
    assert len(said) == 2, "built twice"
    assert layers.digest("toy", "trixie") == sha256(built.read_bytes()).hexdigest()
    assert layers.unpack(gateway, "toy") == ""
    assert gateway.run("toy").stdout == "toy\n"
    assert not (open_image().root / "usr/bin/toy").exists(), "the image itself was changed"
    assert lab.nodes["gw2"].run("toy", check=False).code != 0


def test_a_changed_recipe_is_another_layer(recipes: Path) -> None:
    (recipes / "toy.sh").write_text(TOY)
    first = layers.locate("toy", "trixie")
    assert layers.locate("toy", "bookworm") != first
    (recipes / "toy.lock").write_text("pinned")
    assert layers.locate("toy", "trixie") != first
    assert layers.names() == ["toy"]


def test_a_recipe_that_fails_leaves_no_layer_and_says_why(recipes: Path) -> None:
    (recipes / "bad.sh").write_text("echo before\nno-such-command\n")
    with pytest.raises(CannotRunHere, match=r"(?s)bad could not be built.*no-such-command"):
        layers.build("bad", "trixie", lambda text: None)
    assert not layers.locate("bad", "trixie").exists()
    assert not list(layers.locate("bad", "trixie").parent.glob("*.partial"))


def test_what_a_build_takes_is_said_before_and_how_far_it_is_meanwhile(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "TOLD_EVERY_S", 0.2)
    (recipes / "slow.sh").write_text(f"echo half of it\nfor i in {{1..100000}}; do :; done\nsleep 1\n{TOY}")
    (recipes / "costs.json").write_text(json.dumps({"slow": {"cpu_s": 1e6, "memory_mb": 7, "kept_mb": 5}}))
    said = list[str]()
    layers.build("slow", "trixie", said.append)
    assert " min with " in said[0]
    assert "7 MB of memory meanwhile, and 5 MB to keep" in said[0]
    assert any(" min more, half of it" in each for each in said[1:-1])
    (recipes / "soon.sh").write_text((recipes / "slow.sh").read_text())
    (recipes / "costs.json").write_text(json.dumps({"soon": {"cpu_s": 1e-3, "memory_mb": 7}}))
    layers.build("soon", "trixie", said.append)
    assert any("more than the 0 s of CPU time" in each for each in said)
    (recipes / "costs.json").write_text(json.dumps({"large": {"cpu_s": 1, "memory_mb": 10**9}}))
    (recipes / "large.sh").write_text(TOY)
    with pytest.raises(CannotRunHere, match="needs 1000000000 MB of memory"):
        layers.build("large", "trixie", said.append)


def test_a_vpn_without_its_layer_names_the_command(lab: Lab, recipes: Path) -> None:
    no = equip(lab.nodes["gw1"], load_vpn("boringtun"))
    assert no is not None
    assert "vpneval image trixie --layer boringtun" in no.reason
    assert "boringtun-cli" in no.reason
