import os
import subprocess
from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real import memory_limit
from tornlog.reports.studies.latency.real.memory_limit import (
    Hierarchy,
    MemoryLimitUnavailable,
    Pressure,
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


def test_in_version_2_the_limit_is_on_a_sibling_and_its_events_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "slice" / "session"
    own.mkdir(parents=True)
    for place, controllers in ((own, ""), (own.parent, "cpu memory\n")):
        (place / "cgroup.subtree_control").write_text(controllers)
    made = memory_limit._create_cgroup(Hierarchy(2, tmp_path, own), 1 << 20)
    (made / "memory.stat").write_text("pgsteal 5\nworkingset_refault_file 6\npgmajfault 7\n")
    (made / "memory.events").write_text("low 0\nmax 8\noom 0\n")
    monkeypatch.setattr(memory_limit, "_hierarchy_of", lambda _: Hierarchy(2, tmp_path, made))

    assert made.parent == own.parent
    assert (made / "memory.max").read_text() == str(1 << 20)
    assert pressure_of(1) == Pressure(limit_hits=8, refaults=6, major_faults=7, released_pages=5)

    (own.parent / "cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(MemoryLimitUnavailable, match="do not delegate the memory controller"):
        memory_limit._create_cgroup(Hierarchy(2, tmp_path, own), 1 << 20)


@pytest.fixture
def no_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(memory_limit, "_create_cgroup", refuse)


@pytest.mark.usefixtures("no_cgroup")
def test_without_the_right_to_make_a_cgroup_systemd_limits_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    systemd = tmp_path / "systemd-run"
    systemd.write_text('#!/bin/sh\necho "$@" >> "$0.log"; while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    systemd.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with limited(["echo", "ran"], 1 << 20) as command:
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ran\n"

    tried, ran = (tmp_path / "systemd-run.log").read_text().splitlines()
    assert tried.endswith("-- true")
    assert ran.startswith("--user --scope ")
    assert f"-p MemoryMax={1 << 20} -p MemorySwapMax=0 -- echo ran" in ran


@pytest.mark.usefixtures("no_cgroup")
def test_without_cgroups_and_systemd_one_sentence_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    with store_process(own_store_command(tmp_path / "store", setup), tmp_path / "scratch", memory_bytes) as process:
        before = pressure_of(process.pid)
        found = process.put(arrivals(setup))
        pressure = pressure_of(process.pid).since(before)

    assert len(found.latencies_ns) == 10_000
    assert before.released_pages >= memory_bytes // 4_096 // 4  # the file of clean pages filled the memory
    assert pressure.limit_hits > 0  # by some 2,700 new pages of the log
    assert list(cgroup.glob(f"tornlog-{os.getpid()}-*")) == []
