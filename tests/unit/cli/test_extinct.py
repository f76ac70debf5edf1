"""The systems that nobody can build any more: rows of their own, cited, each with a living system of its class."""

import json
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.cli.commands.list.work import EXTINCT, tables

PRINTED = Path(__file__).parents[3] / "results/published/oslv_tables.json"
SYSTEMS = pytest.mark.parametrize("system", EXTINCT["systems"], ids=lambda system: system["name"])


def test_the_six_are_there_with_their_citation() -> None:
    names = [system["name"] for system in EXTINCT["systems"]]
    assert names == ["CIPE", "Vpnd", "HTun", "Yavipin", "AmritaVPN", "LinVPN"]
    assert "IEEE Communications Magazine 42(10)" in EXTINCT["source"]
    assert [row["name"] for row in tables(whole=False)["extinct"]] == names
    assert all("tables 1, 4, 5" in row["source"] for row in tables(whole=True)["extinct"])


@SYSTEMS
def test_each_names_a_living_system_of_its_transport(system: dict[str, str]) -> None:
    assert system["living"] in vpn_names()
    assert load_vpn(system["living"]).transport == system["transport"]


@SYSTEMS
def test_each_is_as_it_was_printed(system: dict[str, str]) -> None:
    printed = json.loads(PRINTED.read_text())
    name = {"CIPE": "Cipe", "HTun": "Htun"}.get(system["name"], system["name"])
    assert printed["table_1"]["rows"][name][0] == system["version"]
    total, at_ten = printed["table_5"]["rows"][name][-2:]
    assert system["effort"].startswith(f"{total} [{at_ten}]")
    if name in printed["table_4"]["rows"]:
        said = ["yes" if cell else "no" for cell in printed["table_4"]["rows"][name]]
        assert said == [system[what] for what in ("confidentiality", "integrity", "authentication", "anti_replay")]
    else:
        assert system["confidentiality"] == "open standard"
