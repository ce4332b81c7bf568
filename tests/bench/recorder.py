"""Cost of recording a program: µs per call, store, sync and promise, and per durable write of known programs.

Each figure is the processor time of all processes, including the program, over some thousand calls, less that of a run
with few calls. The program is a Python script, so no compiler is needed: `os.pwrite` and a store of one byte are cheap
in it. A sync is a write with its fsync; a promise is a sync and a line on standard output.

`strace`, which stops a program as often and keeps no data, is measured in the same round. All processes of a figure
share one processor. With two processors, each stop under strace would wake an idle processor, which takes most of the
time. The ratio would then depend mostly on the machine. The recorder shares a processor with a program of one thread
anyway.
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

from .recorded_programs import PROGRAMS, command_of
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
_A_SECOND = {"calls": 20_000, "stores": 20_000, **dict.fromkeys(("syncs", "promises", *PROGRAMS), 1_000)}
"""Number of each kind per second of a round. A sync waits for the disk."""


def is_recordable() -> bool:
    """Return whether this system can record programs."""
    return platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")


def why_no_strace() -> str:
    """Return why strace cannot be measured; empty if it can."""
    return "" if shutil.which("strace") else "strace is not on the PATH"


def measure_without_recording(place: Workplace, kind: str) -> Sample:
    """Return the cost of a call without recording."""
    return _measure_per_call(place, kind, _processor_seconds)


def measure_under_strace(place: Workplace, kind: str) -> Sample:
    """Return the cost of a call under strace, with the recorder's filter."""
    traced = ["strace", "-f", "--seccomp-bpf", "-e", "trace=pwrite64,fsync,fdatasync,write", "-o", "trace"]
    return _measure_per_call(place, kind, lambda command, directory: _processor_seconds([*traced, *command], directory))


def measure_recorded(place: Workplace, kind: str) -> Sample:
    """Return the cost of a recorded call in the program and in the recorder."""
    return _measure_per_call(place, kind, lambda command, directory: _recorded_seconds(command, directory)[0])


def measure_comparison(place: Workplace) -> Sample:
    """Return the cost of comparing a recorded call with the program's file."""
    return _measure_per_call(place, "calls", lambda command, directory: _recorded_seconds(command, directory)[1])


def _measure_per_call(place: Workplace, kind: str, seconds: Callable[[list[str], str], float]) -> Sample:
    more = max(int(_A_SECOND[kind] * place.settings.seconds), 1)
    found = []
    for count in (_FEW, _FEW + more):
        with place.directory() as built, place.directory() as directory:
            command = _program(kind, count) if kind not in PROGRAMS else command_of(kind, built, count)
            with one_processor():
                found.append(seconds(command, directory))
    return Sample((found[1] - found[0]) / more * 1e6)


@contextmanager
def one_processor() -> Iterator[None]:
    """Pin this process and its children to one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _program(kind: str, count: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _SCRIPT, kind, str(count)]


def _processor_seconds(command: Sequence[str], directory: str) -> float:
    """Return the processor time of a command and its children."""
    before = _spent(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return _spent(resource.RUSAGE_CHILDREN) - before


def _recorded_seconds(program: Sequence[str], directory: str) -> tuple[float, float]:
    """Return the time of recording in the recorder and the program, and the time of comparing.

    It runs in its own process: the recorder is a fork of its caller, which must have no threads.
    """
    command = [sys.executable, "-P", "-m", __name__, *program]
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
    """Record one run of the program; print the times of its processes and of the comparison."""
    program = sys.argv[1:]
    record, unlike = RecorderChoice(CALLS, "step", _SECONDS_MAX).record(program, EMPTY, ignores_special_files=True)
    assert not unlike, unlike
    assert not record.unseen, record.unseen
    assert len(record.steps) > int(program[-1]), len(record.steps)
    print(json.dumps([_spent(resource.RUSAGE_CHILDREN), _spent(resource.RUSAGE_SELF)]))


if __name__ == "__main__":
    main()
