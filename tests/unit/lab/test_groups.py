"""What a control group's files say of CPU time, in both versions of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.lab.node.groups import GroupSpent, group_cpu


def test_version_2_has_both_kinds_of_time(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnice_usec 0\n")
    assert group_cpu(tmp_path) == GroupSpent(2.0, 0.5)
    assert group_cpu(tmp_path).all_s == 2.5


@pytest.mark.parametrize(("ticks", "user_s"), [((300, 100), 3.0), ((0, 0), 0.0), ((0, 7), 0.0)])
def test_version_1_divides_its_exact_sum_as_its_ticks_do(tmp_path: Path, ticks: tuple[int, int], user_s: float) -> None:
    (tmp_path / "cpuacct.usage").write_text("4000000000\n")
    (tmp_path / "cpuacct.stat").write_text("user {}\nsystem {}\n".format(*ticks))
    assert group_cpu(tmp_path) == GroupSpent(user_s, 4.0 - user_s)


def test_what_was_spent_between_two_looks() -> None:
    assert GroupSpent(3, 2) - GroupSpent(1, 0.5) == GroupSpent(2, 1.5)
