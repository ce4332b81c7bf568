"""The C core and ctypes make the same requests and the same records."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.probe.steps import steps_of
from tests.faults.probe.tracing.programs import traced
from tornlog.faults.probe.tracing import native, ptrace
from tornlog.faults.probe.tracing.core import PURE_PYTHON, TracingCore, load_core
from tornlog.faults.probe.tracing.files import descriptor_facts
from tornlog.faults.probe.tracing.machines import NT_PRSTATUS, this_machine
from tornlog.faults.probe.tracing.registers import Registers, register
from tornlog.faults.probe.tracing.shadows import difference
from tornlog.faults.probe.tracing.threads import CallInjector

PROGRAM = """
    f = file(content=bytes(20000))
    m = mmap.mmap(f, 20000)
    for number in range(8):
        os.pwrite(f, b"w%d" % number, number * 1000)
        m[number * 2000] = number + 1
        ctypes.c_uint64.from_address(address(m, 4092)).value = number * 0x0101010101010101
        m[12288:16000] = bytes([number + 1]) * 3712
        os.readv(f, [m])
    os.write(f, b"end")
    in_child(lambda: os.rename("f", "g"))
    try:
        os.write(99, b"x")
    except OSError:
        os.truncate("g", 5)
    """
Switch = Callable[[TracingCore | None], None]


@pytest.fixture
def use_core(monkeypatch: pytest.MonkeyPatch) -> Switch:
    """Return a function that switches between the core and ctypes."""
    return lambda core: monkeypatch.setattr(ptrace, "CORE", core)


@pytest.fixture
def stopped(core: TracingCore) -> Iterator[int]:
    """A traced and stopped child, outside of any call: a step would wait for a blocking call."""
    child = os.fork()
    if not child:
        while True:
            pass
    ptrace.request(0x4206, child, 0, 0x100000)  # PTRACE_SEIZE, with EXITKILL
    ptrace.request(0x4207, child, 0, 0)  # PTRACE_INTERRUPT
    ptrace.wait_for(child)
    yield child
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0x40000000)
    except (ProcessLookupError, ChildProcessError):
        assert not Path(f"/proc/{child}").exists()


def test_the_compiled_core_and_ctypes_make_the_same_recording(core: TracingCore, use_core: Switch) -> None:
    use_core(core)
    by_core = steps_of(traced(PROGRAM))
    use_core(None)
    by_python = steps_of(traced(PROGRAM))

    assert by_core == by_python
    assert {"store", "write", "rename", "truncate"} <= {one.kind for one in by_core}


def test_the_compiled_core_and_ctypes_return_the_same_data_about_a_thread(
    core: TracingCore, use_core: Switch, stopped: int
) -> None:
    machine = this_machine()
    assert machine is not None
    registers = Registers(machine)

    def answers() -> list[object]:
        general = registers.get(stopped)
        registers.set(stopped, general, {machine.result: 2**64 - 5})
        changed = registers.get(stopped)
        registers.set(stopped, general)
        mask = ptrace.block_signals(stopped)
        blocked = ptrace.block_signals(stopped)
        ptrace.set_mask(stopped, mask)
        code = ptrace.read_memory(stopped, register(general, machine.program_counter), 64)
        return [general, changed, mask, blocked, ptrace.block_signals(stopped), ptrace.set_mask(stopped, mask), code]

    use_core(core)
    by_core = answers()
    use_core(None)
    assert by_core == answers()


def test_a_single_step_executes_one_instruction(core: TracingCore, use_core: Switch, stopped: int) -> None:
    machine = this_machine()
    assert machine is not None
    for one in (core, None):
        use_core(one)
        assert CallInjector(machine).step(stopped) == signal.SIGTRAP


@pytest.fixture
def frequent_signals() -> Iterator[None]:
    """Send a signal every 10 ms, as the tracer does."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _waits_on_descriptor(process: int, thread: int, descriptor: int) -> bool:
    """Return whether a thread waits in a call whose first argument is a descriptor."""
    return Path(f"/proc/{process}/task/{thread}/syscall").read_text().split()[1:2] == [hex(descriptor)]


@pytest.mark.usefixtures("frequent_signals")
@pytest.mark.parametrize("has_core", [True, False])
def test_a_process_killed_during_a_single_step_is_reported_as_gone(
    core: TracingCore, use_core: Switch, *, has_core: bool
) -> None:
    use_core(core if has_core else None)
    machine = this_machine()
    assert machine is not None
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        for _ in range(2):
            threading.Thread(target=os.read, args=(read_end, 1), daemon=True).start()
        os.read(read_end, 1)
    threads = set[int]()
    while len(threads) != 3 or not all(_waits_on_descriptor(child, thread, read_end) for thread in threads):
        time.sleep(0.001)
        threads = {int(name) for name in os.listdir(f"/proc/{child}/task")}
    for thread in threads:
        ptrace.request(0x4206, thread, 0, 0x100000)  # PTRACE_SEIZE, with EXITKILL
    ptrace.request(0x4207, child, 0, 0)  # PTRACE_INTERRUPT
    ptrace.wait_for(child)

    killer = threading.Timer(0.05, os.kill, (child, signal.SIGKILL))
    killer.start()
    with pytest.raises(ptrace.ThreadGone) as gone:
        CallInjector(machine).step(child)  # one blocking call

    killer.join()
    assert (gone.value.thread, gone.value.status) == (child, signal.SIGKILL)
    assert {ptrace.wait() for _ in range(2)} == {(thread, signal.SIGKILL) for thread in threads - {child}}
    assert not Path(f"/proc/{child}").exists()
    os.close(read_end)
    os.close(write_end)


def test_requests_for_an_ended_thread_raise_thread_gone(core: TracingCore, use_core: Switch, stopped: int) -> None:
    os.kill(stopped, signal.SIGKILL)
    os.waitpid(stopped, 0x40000000)
    requests: list[Callable[[], object]] = [
        lambda: ptrace.go_on(stopped),
        lambda: ptrace.entered(stopped),
        lambda: ptrace.result(stopped),
        lambda: ptrace.memory_fault(stopped),
        lambda: ptrace.block_signals(stopped),
        lambda: ptrace.set_mask(stopped, 0),
        lambda: ptrace.read_memory(stopped, 4096, 8),
        lambda: ptrace.write_memory(stopped, 4096, b"x"),
    ]
    for one in (core, None):
        use_core(one)
        for request in requests:
            with pytest.raises(ptrace.ThreadGone) as gone:
                request()
            assert gone.value.thread == stopped
        with pytest.raises(ChildProcessError):
            ptrace.wait(stopped)


def test_reading_unmapped_memory_is_an_error(core: TracingCore, use_core: Switch, stopped: int) -> None:
    for one in (core, None):
        use_core(one)
        with pytest.raises(OSError, match="Bad address"):
            ptrace.read_memory(stopped, 0, 8)


def test_invalid_registers_are_refused(core: TracingCore, stopped: int) -> None:
    general = core.registers(stopped, NT_PRSTATUS)

    with pytest.raises(IndexError):
        core.set_registers(stopped, NT_PRSTATUS, general, {len(general) // 8: 0})
    with pytest.raises(OverflowError):
        core.set_registers(stopped, NT_PRSTATUS, general, {0: 2**64})
    with pytest.raises(ValueError, match="at most"):
        core.set_registers(stopped, NT_PRSTATUS, bytes(2048), {})


def test_the_compiled_core_and_ctypes_read_the_same_descriptor_facts(
    core: TracingCore, use_core: Switch, tmp_path: Path
) -> None:
    file = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.write(file, b"twelve bytes")
    info = os.open(f"/proc/self/fdinfo/{file}", os.O_RDONLY)
    use_core(core)
    by_core = descriptor_facts(info)
    use_core(None)
    by_python = descriptor_facts(info)
    for one in (info, file):
        os.close(one)

    assert by_core == by_python
    assert by_core[0] == 12
    assert by_core[1] & os.O_APPEND
    assert by_core[3] == (tmp_path / "f").stat().st_ino


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_compiled_core_and_python_find_the_same_difference(old: bytes, new: bytes) -> None:
    core = load_core()
    if core is None:
        pytest.skip("no core in C was built")
    size = max(len(old), len(new))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptrace, "CORE", None)
        expected = difference(old, new)

    assert core.difference(old.ljust(size, b"\0"), new.ljust(size, b"\0")) == expected


def test_contents_of_different_sizes_are_refused(core: TracingCore) -> None:
    with pytest.raises(ValueError, match="equal sizes"):
        core.difference(b"a", b"ab")


def test_the_compiled_core_can_be_disabled(core: TracingCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PURE_PYTHON, "1")

    assert load_core() is None


def test_a_compiled_core_of_another_version_is_not_used(core: TracingCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)

    assert load_core() is None
