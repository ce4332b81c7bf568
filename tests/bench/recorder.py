"""Cost of recording a program: processor time of a call, a store through a map, a sync and a promise, in µs.

Each figure is the processor time of all processes, the program's own included, over some thousand calls, less the
time of a run with few of them. The program is a Python script, so no compiler is needed: a call of `os.pwrite` and a
store of one byte cost it little. A sync is a write with its fsync; a promise is a sync and a line on standard output.

`strace`, which stops a program as often and keeps no data, is measured in the same round. All processes of a figure
have one processor. With two, each stop under strace wakes an idle one, and that takes most of its time: the ratio then
says more about the machine than about the recorder, which shares a processor with its program anyway.
"""

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tornlog.faults.probe.programs import CALLS, RecorderChoice
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.reports.studies.closed_loop import Sample

from .workplace import Workplace

_SCRIPT = r"""
import mmap, os, sys
kind, count = sys.argv[1], int(sys.argv[2])
f = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(f, 1 << 20)
if kind == "calls":
    for number in range(count):
        os.pwrite(f, b"%064d" % number, number % 1000 * 64)
elif kind in ("syncs", "promises"):
    for number in range(count):
        os.pwrite(f, b"%064d" % number, number % 1000 * 64)
        os.fsync(f)
        if kind == "promises":
            os.write(1, b"%d\n" % number)
else:
    m = mmap.mmap(f, 1 << 20)
    for number in range(count):
        m[number % 2 * 4096 + number % 4000] = number // 4000 % 255 + 1
"""
_FEW, _SECONDS_MAX = 100, 600.0
_A_SECOND = {"calls": 20_000, "stores": 20_000, "syncs": 1_000, "promises": 1_000}
"""How many of a kind are measured for each second of a round. A sync waits for the disk."""


def is_recordable() -> bool:
    """Return whether programs are recorded on this system at all."""
    return platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")


def why_no_strace() -> str:
    """Return why strace cannot be measured; empty if it can."""
    return "" if shutil.which("strace") else "strace is not on the PATH"


def bare(place: Workplace, kind: str) -> Sample:
    """Return the cost of a call that is not recorded."""
    return _each(place, kind, lambda directory, count: _processor_seconds(_program(kind, count), directory))


def under_strace(place: Workplace, kind: str) -> Sample:
    """Return the cost of a call under strace, with a filter as fine as the recorder's."""
    traced = ["strace", "-f", "--seccomp-bpf", "-e", "trace=pwrite64,fsync,write", "-o", "trace"]
    return _each(place, kind, lambda directory, count: _processor_seconds([*traced, *_program(kind, count)], directory))


def recorded(place: Workplace, kind: str) -> Sample:
    """Return the cost of a recorded call in the program and in the recorder."""
    return _each(place, kind, lambda directory, count: _recorded_seconds(kind, count, directory)[0])


def compared(place: Workplace) -> Sample:
    """Return the cost of comparing a recorded call with the file that the program has left."""
    return _each(place, "calls", lambda directory, count: _recorded_seconds("calls", count, directory)[1])


def _each(place: Workplace, kind: str, seconds: Callable[[str, int], float]) -> Sample:
    count = max(int(_A_SECOND[kind] * place.settings.seconds), 1)
    with _one_processor():
        with place.directory() as directory:
            start = seconds(directory, _FEW)
        with place.directory() as directory:
            return Sample((seconds(directory, _FEW + count) - start) / count * 1e6)


@contextmanager
def _one_processor() -> Iterator[None]:
    """Give this process, and those that it starts, one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _program(kind: str, count: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _SCRIPT, kind, str(count)]


def _processor_seconds(command: Sequence[str], directory: str) -> float:
    """Return what a command takes, with all that it starts."""
    before = _spent(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return _spent(resource.RUSAGE_CHILDREN) - before


def _recorded_seconds(kind: str, count: int, directory: str) -> tuple[float, float]:
    """Return what recording takes in the recorder's process and the program, and what comparing takes.

    It has a process of its own, for the recorder is a fork of whoever asks for it, and may share it with no thread.
    """
    command = [sys.executable, "-P", "-m", __name__, kind, str(count)]
    environment = {**os.environ, "TMPDIR": directory, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the recorder has ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    children, own = json.loads(done.stdout)
    return children, own


def _spent(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Record one run of the program; print what its processes, and the comparison, have taken."""
    kind, count = sys.argv[1], int(sys.argv[2])
    record, unlike = RecorderChoice(CALLS, "step", _SECONDS_MAX).record(_program(kind, count), EMPTY)
    assert not unlike, unlike
    assert len(record.steps) > count, len(record.steps)
    print(json.dumps([_spent(resource.RUSAGE_CHILDREN), _spent(resource.RUSAGE_SELF)]))


if __name__ == "__main__":
    main()
