"""What a change touches: what imports it, what loads it by name, and what reads it."""

from __future__ import annotations

import pytest

from tests.tools import touched
from tests.tools.touched import ON_CHANGE, Selection, select


def chosen(*changed: str) -> Selection:
    return select("HEAD", ON_CHANGE, changed)


@pytest.mark.parametrize(
    ("changed", "left_out", "runs"),
    [
        ("runner/papers/judges.py", "tests/unit/search/test_search.py", "tests/unit/papers/test_judges.py"),
        ("runner/search/deleted_now.py", "tests/unit/vpn/test_closing.py", "tests/unit/search/test_search.py"),
        ("runner/lab/probes/undo.py", "tests/unit/search/test_search.py", "tests/lab/test_contract.py"),
        ("tests/bench/devices.py", "tests/unit/vpn/test_sign.py", "tests/unit/search/test_search.py"),
        ("runner/vpn/gateway/anything.sh", "tests/unit/search/test_search.py", "tests/unit/vpn/test_recipe.py"),
        ("tests/golden/anything.txt", "tests/lab/test_contract.py", "tests/unit/vpn/test_golden.py"),
    ],
)
def test_what_imports_or_reads_a_changed_file_runs(changed: str, left_out: str, runs: str) -> None:
    found = chosen(changed)
    assert left_out in found.left_out
    assert runs not in found.left_out
    assert left_out.rpartition("/")[2] in "\n".join(found.lines())


def test_of_a_changed_plugin_its_own_cases_and_its_kins_run() -> None:
    assert chosen("vpns/tinc.py").vpns["tests/lab/test_contract.py"] == ["tinc"]
    assert {"ipsec", "l2tp_ipsec"} <= {*chosen("vpns/_esp.py").vpns["tests/lab/test_contract.py"]}
    assert not chosen("vpns/tinc.py", "runner/lab/errors.py", "runner/vpn/plugin.py").vpns


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements-dev.txt", ".ci/run", "tests/conftest.py"])
def test_where_nobody_knows_who_reads_it_everything_runs(changed: str) -> None:
    found = chosen("vpns/tinc.py", changed)
    assert not found.since
    assert not found.left_out
    assert changed in found.lines()[0]


def test_without_a_commit_or_a_change_everything_runs() -> None:
    assert not select("no-such-revision", ON_CHANGE).since
    assert not chosen().since


def test_what_runs_on_change_is_there() -> None:
    for path in ON_CHANGE:
        assert touched.tests_below([path]), path
