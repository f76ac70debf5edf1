"""CPU time of kernel threads, from made-up processes."""

from pathlib import Path

import pytest

from runner.lab.readings.kernel_threads import KernelThreads


def process(proc: Path, pid: int, parent: int, ns: int, name: str = "kworker/0:1-wg-crypt") -> None:
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0")
    (folder / "schedstat").write_text(f"{ns} 5 6")


def test_only_the_kernels_threads_count_and_those_that_ended_stay_counted(tmp_path: Path) -> None:
    process(tmp_path, 2, 0, 10**9, "kthreadd")
    process(tmp_path, 17, 2, 3 * 10**9, "a (strange) name")
    process(tmp_path, 400, 1, 10**12, "openvpn")
    threads = KernelThreads(tmp_path)
    assert threads.seconds() == pytest.approx(3)
    process(tmp_path, 17, 2, 4 * 10**9)
    assert threads.seconds() == pytest.approx(4)
    (tmp_path / "17" / "schedstat").unlink()
    assert threads.seconds() == pytest.approx(4)


def test_where_none_can_be_seen_there_is_no_time(tmp_path: Path) -> None:
    process(tmp_path, 400, 1, 10**12, "openvpn")
    assert KernelThreads(tmp_path).seconds() == 0


def test_this_machines_only_grow() -> None:
    threads = KernelThreads()
    first = threads.seconds()
    assert threads.seconds() >= first >= 0
