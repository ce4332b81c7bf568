"""Calls that the C core executes for a thread have the same results, effects and records as the thread's own."""

import platform
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.probe.tracing.programs import python
from tornlog.faults.probe.record import ACKNOWLEDGE, SYNC, WRITE, ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing import ptrace
from tornlog.faults.probe.tracing.core import TracingCore
from tornlog.faults.probe.tracing.run import record_traced

_BEGIN = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.pwrite.argtypes = [*libc.write.argtypes, ctypes.c_long]
edge = mmap.mmap(-1, 8192)  # a buffer whose second half cannot be read
libc.mprotect(ctypes.c_void_p(address(edge, 4096)), 4096, 0)
def say(result):
    error = ctypes.get_errno() if result < 0 else 0
    os.write(1, b"%d %d\\n" % (result, error))
def other_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
flags = [0, os.O_APPEND, os.O_DSYNC, os.O_SYNC, os.O_DIRECT, os.O_APPEND | os.O_DSYNC]
files = [os.open(f"f{number}", os.O_RDWR | os.O_CREAT | more, 0o644) for number, more in enumerate(flags)]
files += [os.open("f0", os.O_RDONLY), os.open("f0", os.O_PATH), os.open("f1", os.O_WRONLY), os.dup(files[0])]
files += [os.open(".", os.O_RDONLY), os.open("/dev/null", os.O_RDWR), os.pipe2(os.O_NONBLOCK)[1], 1, 99, -1]
os.ftruncate(files[0], 20000)
m = mmap.mmap(files[0], 8192)
os.write(files[0], b"begin")
"""


def _operations(draw: random.Random, count: int) -> Iterator[str]:
    """Yield random calls, most of them plain. Each says its result."""
    for _ in range(count):
        file, size, at = f"files[{draw.randrange(16)}]", draw.choice((0, 1, 64, 4096, 9000)), draw.randrange(20000)
        data = f"at(bytes([{draw.randrange(256)}]) * {max(size, 1)})"
        write = f"say(libc.write({file}, {data}, {size}))"
        yield draw.choice(
            (
                write,
                write,
                f"say(libc.pwrite({file}, {data}, {size}, {at}))",
                f"say(libc.fsync({file}))",
                f"say(libc.fdatasync({file}))",
                f"say(libc.write({file}, address(edge, {draw.choice((4090, 0))}), 100))",
                f"say(libc.pwrite({file}, {draw.choice((0, 4096))}, 10, 0))",
                f"say(libc.pwrite({file}, {data}, {size}, -1))",
                f"os.lseek(files[{draw.randrange(6)}], {at}, 0)",
                f"say(libc.ftruncate(files[{draw.randrange(1, 6)}], long({at})))",
                f"in_child(lambda: {write})",
                f"other_thread(lambda: {write})",
                f"m[{at % 8000}] = {draw.randrange(256)}",
                "os.readv(os.open('f1', os.O_RDONLY), [m])",
                f"resource.setrlimit(resource.RLIMIT_FSIZE, ({draw.choice((5000, -1))}, -1))",
            )
        )


def _record(program: list[str]) -> ProgramRecord:
    record, unlike = record_traced(program, EMPTY, 60.0)
    assert not unlike
    return record


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_leave_the_same_record_with_and_without_the_core(
    core: TracingCore, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    program = python(_BEGIN + "\n".join(_operations(random.Random(seed), 150)))
    monkeypatch.setattr(ptrace, "CORE", core)
    by_core = _record(program)
    monkeypatch.setattr(ptrace, "CORE", None)
    by_thread = _record(program)

    assert by_core == by_thread
    assert {WRITE, SYNC, ACKNOWLEDGE} <= {step.kind for step in by_core.steps}


_COUNTED = """
def executed_writes():
    with open("/proc/self/io") as counts:
        return next(int(line.split()[1]) for line in counts if line.startswith("syscw"))
f = file(content=b"the first step")
before = executed_writes()
for number in range(10):
    os.write(f, b"w%d" % number)
os.write(1, b"%d\\n" % (executed_writes() - before))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="plain calls are executed on x86-64 only")
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count the writes of a process")
@pytest.mark.parametrize(("has_core", "executed"), [(True, "0"), (False, "10")])
def test_a_thread_executes_its_writes_only_without_the_core(
    core: TracingCore, monkeypatch: pytest.MonkeyPatch, *, has_core: bool, executed: str
) -> None:
    monkeypatch.setattr(ptrace, "CORE", core if has_core else None)

    assert _record(python(_COUNTED)).acknowledged == [executed]
