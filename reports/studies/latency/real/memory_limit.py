"""Memory limits: runs a process in a new memory cgroup, and reads its reclaim and refaults.

A cgroup limits all memory of a process, with its page cache (Linux, Documentation/admin-guide/cgroup-v2.rst and
cgroup-v1/memory.rst). In version 1 the new cgroup is a child of this process's cgroup, so it has the same limits. In
version 2 the children of a cgroup with processes cannot have limits, so the new cgroup may be a sibling. If this
process may not create one, `systemd-run --user --scope` asks the user's systemd.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_REMOVAL_SECONDS_MAX = 5.0  # a cgroup stays busy for a moment after its last process
_SYSTEMD_SECONDS_MAX = 20


class MemoryLimitUnavailable(Exception):
    """The user cannot limit memory on this system. The message has the reason."""


class Pressure(NamedTuple):
    """Events in a cgroup since its creation."""

    limit_hits: int
    """Attempts to use more than the limit, each of which reclaims pages: memory.failcnt, or `max` of memory.events."""
    refaults: int
    """Pages of files that were read again soon after their eviction: workingset_refault_file."""
    major_faults: int
    """Page faults that read a disk: pgmajfault."""
    released_pages: int
    """Pages that reclaim freed: pgsteal. Version 1 counts only pages freed for any reason: pgpgout."""

    def since(self, earlier: "Pressure") -> "Pressure":
        return Pressure(*(now - then for now, then in zip(self, earlier, strict=True)))


NO_PRESSURE = Pressure(0, 0, 0, 0)


class Hierarchy(NamedTuple):
    """A mounted tree of cgroups with the memory controller, and the path of a process's cgroup in it."""

    version: int
    mount: Path
    own: Path


def memory_hierarchy(cgroups: str, mounts: str) -> Hierarchy:
    """Return the hierarchy of /proc/PID/cgroup and /proc/PID/mountinfo. Raises MemoryLimitUnavailable without one."""
    own = {}
    for line in cgroups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            own["cgroup2"] = path
        elif "memory" in controllers.split(","):
            own["cgroup"] = path
    for kind, version in (("cgroup", 1), ("cgroup2", 2)):  # a controller that version 1 uses is not in version 2
        for line in mounts.splitlines() if kind in own else ():
            fields = line.split()
            mounted_kind, _, options = fields[fields.index("-") + 1 :]
            if mounted_kind == kind and (version == 2 or "memory" in options.split(",")):
                mount = Path(fields[4])
                with suppress(ValueError):  # the mount may show only another part of the tree
                    return Hierarchy(version, mount, mount / Path(own[kind]).relative_to(fields[3]))
    raise MemoryLimitUnavailable("no cgroup with the memory controller is mounted")


def _hierarchy_of(process: int | str) -> Hierarchy:
    place = Path("/proc") / str(process)
    return memory_hierarchy((place / "cgroup").read_text(), Path("/proc/self/mountinfo").read_text())


def pressure_of(process: int) -> Pressure:
    """Return the events of the cgroup of a process."""
    found = _hierarchy_of(process)
    stat = _counts(found.own / "memory.stat")
    if found.version == 1:
        hits, released = int((found.own / "memory.failcnt").read_text()), stat["pgpgout"]
    else:
        hits, released = _counts(found.own / "memory.events")["max"], stat["pgsteal"]
    return Pressure(hits, stat["workingset_refault_file"], stat["pgmajfault"], released)


def _counts(path: Path) -> dict[str, int]:
    return {name: int(count) for name, count in map(str.split, path.read_text().splitlines())}


def has_own_dirty_limits() -> bool:
    """Return whether the dirty limits of a limited process follow from its memory, as only in version 2 (writeback)."""
    try:
        return _hierarchy_of("self").version == 2
    except MemoryLimitUnavailable:
        return True  # a scope of systemd


@contextmanager
def limited(command: Sequence[str], limit_bytes: int) -> Iterator[list[str]]:
    """Yield a command that runs the given one under the limit, with the same process id.

    The process must have ended before the end of the block, which removes the cgroup. Raises MemoryLimitUnavailable.
    """
    cgroup, reason = None, ""
    try:
        cgroup = _create_cgroup(_hierarchy_of("self"), limit_bytes)
    except (MemoryLimitUnavailable, OSError) as error:
        reason = str(error)
    if cgroup is None:
        yield [*_systemd_scope(limit_bytes, reason), *command]
        return
    try:
        yield ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{cgroup}/cgroup.procs", *command]
    finally:
        _remove_cgroup(cgroup)


def _create_cgroup(found: Hierarchy, limit_bytes: int) -> Path:
    name = f"tornlog-{os.getpid()}-{time.monotonic_ns()}"
    if found.version == 1:
        cgroup, files = found.own / name, {"memory.limit_in_bytes": limit_bytes}
    else:
        parents = [one for one in (found.own, found.own.parent) if _delegates_memory(one)]
        if not parents:
            raise MemoryLimitUnavailable(f"{found.own} and its parent do not delegate the memory controller")
        cgroup, files = parents[0] / name, {"memory.max": limit_bytes}
    cgroup.mkdir()
    try:
        if (cgroup / "memory.swap.max").exists():  # missing in a kernel without swap
            files["memory.swap.max"] = 0
        for file, value in files.items():
            (cgroup / file).write_text(str(value))
    except OSError:
        cgroup.rmdir()
        raise
    return cgroup


def _delegates_memory(cgroup: Path) -> bool:
    with suppress(OSError):
        return "memory" in (cgroup / "cgroup.subtree_control").read_text().split()
    return False


def _remove_cgroup(cgroup: Path) -> None:
    until = time.monotonic() + _REMOVAL_SECONDS_MAX
    while True:
        try:
            return cgroup.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _systemd_scope(limit_bytes: int, why_no_cgroup: str) -> list[str]:
    scope = ["systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", f"MemoryMax={limit_bytes}"]
    scope += ["-p", "MemorySwapMax=0", "--"]
    if shutil.which(scope[0]) is None:
        raise MemoryLimitUnavailable(f"no memory limit: {why_no_cgroup}; and systemd-run is not on the PATH")
    tried = subprocess.run([*scope, "true"], capture_output=True, text=True, check=False, timeout=_SYSTEMD_SECONDS_MAX)
    if tried.returncode:
        reason = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[0]
        raise MemoryLimitUnavailable(f"no memory limit: {why_no_cgroup}; and systemd-run: {reason}")
    return scope
