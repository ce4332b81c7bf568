from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real import memory_limit
from tornlog.reports.studies.latency.real.memory_limit import (
    Hierarchy,
    MemoryLimitUnavailable,
    limited,
    memory_hierarchy,
    pressure_of,
)
from tornlog.reports.studies.latency.real.process import own_store_command, store_process
from tornlog.reports.studies.latency.traffic import Setup, arrivals

V1 = "31 23 0:29 / /sys/fs/cgroup/{0} rw,relatime - cgroup cgroup rw,{0}\n"
V2 = "41 31 0:38 {} /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


def test_the_hierarchy_with_the_memory_controller_is_found() -> None:
    unified = Path("/sys/fs/cgroup/unified")
    both = "4:memory:/a/b\n1:cpu:/c\n0::/d\n"
    mounts = V1.format("cpu") + V1.format("memory") + V2.format("/")
    memory = Path("/sys/fs/cgroup/memory")

    assert memory_hierarchy(both, mounts) == Hierarchy(1, memory, memory / "a/b")
    assert memory_hierarchy("0::/d\n", mounts) == Hierarchy(2, unified, unified / "d")
    assert memory_hierarchy("0::/pod/d\n", V2.format("/pod")) == Hierarchy(2, unified, unified / "d")


@pytest.mark.parametrize(("cgroups", "mounts"), [("1:cpu:/c\n", V1.format("cpu")), ("0::/d\n", V2.format("/pod"))])
def test_a_system_without_a_usable_hierarchy_is_reported(cgroups: str, mounts: str) -> None:
    with pytest.raises(MemoryLimitUnavailable, match="no cgroup with the memory controller"):
        memory_hierarchy(cgroups, mounts)


def test_without_cgroups_and_systemd_one_sentence_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(memory_limit, "_made", refuse)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(MemoryLimitUnavailable, match="Permission denied; and systemd-run is not on the PATH"),
        limited(["true"], 1 << 20),
    ):
        pass


@pytest.fixture
def cgroup() -> Path:
    """This process's cgroup, if a child with a limit can be made."""
    try:
        with limited(["true"], 1 << 30):
            return memory_limit._hierarchy_of("self").own
    except MemoryLimitUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.ci
def test_each_page_of_a_limited_store_needs_reclaim(cgroup: Path, tmp_path: Path) -> None:
    setup, memory_bytes = Setup("async", 2, 1e6, 10_000), 96 << 20
    children = set(cgroup.iterdir())
    with store_process(own_store_command(tmp_path / "store", setup), tmp_path / "scratch", memory_bytes) as process:
        before = pressure_of(process.pid)
        found = process.put(arrivals(setup))
        pressure = pressure_of(process.pid).since(before)

    assert len(found.latencies_ns) == 10_000
    assert before.released_pages >= memory_bytes // 4_096 // 4  # the file of clean pages filled the memory
    assert pressure.limit_hits > 0  # by some 2,700 new pages of the log
    assert set(cgroup.iterdir()) == children
