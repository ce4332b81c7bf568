from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real import memory_limit
from tornlog.reports.studies.latency.real.memory_limit import (
    Hierarchy,
    MemoryLimitUnavailable,
    limited,
    memory_hierarchy,
)
from tornlog.reports.studies.latency.real.process import own_store_command, pressure_on, store_process
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
@pytest.mark.parametrize(("memory_mib", "reaches"), [(96, True), (4096, False)])
def test_a_log_larger_than_the_limit_reclaims_pages(
    cgroup: Path, tmp_path: Path, memory_mib: int, reaches: bool
) -> None:
    setup = Setup("async", 2, 2_000.0, 200)
    children = set(cgroup.iterdir())
    command = own_store_command(tmp_path / "store", setup)
    with store_process(command, tmp_path / "scratch", memory_mib << 20) as process:
        process.ask(do="fill", bytes=128 << 20)
        found = process.put(arrivals(setup))
        pressure = pressure_on(process, memory_mib << 20)

    assert len(found.latencies_ns) == 200
    assert (pressure.limit_hits > 0) == reaches
    assert set(cgroup.iterdir()) == children
