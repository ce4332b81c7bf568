"""Wrappers of ptrace(2), wait4(2) and process_vm_readv(2), through ctypes.

The wrappers need no build step and no privileges. The kernel requires that all requests come from the thread that
started the program. Buffers are allocated once, because an allocation takes as long as a stop. If the C core is
present, the core makes the requests of each stop, and this module interprets the results.
"""

import ctypes
import errno
import os
import signal
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from .core import load_core

CONTINUE, STEP, TO_EXIT, LISTEN = 7, 9, 24, 0x4208
"""How a stopped thread continues: freely, for one instruction, to the end of its call, or after SIGCONT."""
FORKED, VFORKED, CLONED, EXECUTED, CALLS, STOPPED = 1, 2, 3, 4, 7, 128
"""Ptrace events, from bit 16 of a wait status."""
_SEIZE, _EVENT_MESSAGE, _SIGNAL_INFO, _CALL_INFO = 0x4206, 0x4201, 0x4202, 0x420E
_GET_MASK, _SET_MASK = 0x420A, 0x420B
_OPTIONS = 1 | 2 | 4 | 8 | 0x10 | 0x80 | 0x100000  # sysgood, fork, vfork, clone, exec, seccomp, exitkill
_ALL_CHILDREN = 0x40000000
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_SYNCHRONOUS = (signal.SIGSEGV, signal.SIGTRAP, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS)
_STEPPING_MASK = (2**64 - 1) & ~sum(1 << one - 1 for one in _SYNCHRONOUS)
_PATH_BYTES_MAX = 4096

CORE = load_core()
_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_wait4 = _libc.wait4
_wait4.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
_read_memory = _libc.process_vm_readv
_read_memory.restype = ctypes.c_ssize_t
_read_memory.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]

_write_memory = _libc.process_vm_writev
_write_memory.restype = ctypes.c_ssize_t
_write_memory.argtypes = _read_memory.argtypes


class ThreadGone(Exception):
    """A stopped thread was killed. status: its wait status, or None if `wait` will return the status."""

    def __init__(self, thread: int, status: int | None = None) -> None:
        super().__init__(thread, status)
        self.thread = thread
        self.status = status


if CORE is not None:
    CORE.gone = ThreadGone


class TraceRefusedError(Exception):
    """The kernel does not allow recording. The message says how to allow it."""


class EnteredCall(NamedTuple):
    """A thread's system call before its execution."""

    number: int
    arguments: tuple[int, ...]
    next_address: int
    """Address of the instruction after the call."""
    stack: int


class MemoryFault(NamedTuple):
    """Cause of a SIGSEGV."""

    address: int
    is_protected: bool
    """Whether the address is mapped but protected."""


def request(what: int, thread: int, address: int, data: int) -> int:
    """Make a ptrace request for a stopped thread. Raises ThreadGone if the thread has ended, OSError if the kernel
    refuses."""
    found: int = _ptrace(what, thread, address, data)
    if found < 0:
        number = ctypes.get_errno()
        if number == errno.ESRCH:
            raise ThreadGone(thread)
        raise OSError(number, os.strerror(number), f"ptrace {what:#x}")
    return found


def go_on(thread: int, how: int = CONTINUE, signal_number: int = 0) -> None:
    """Continue a stopped thread. signal_number: a signal to deliver, or 0."""
    if CORE is not None:
        CORE.go_on(thread, how, signal_number)
    elif _ptrace(how, thread, 0, signal_number) < 0:
        request(how, thread, 0, signal_number)


_status = ctypes.c_int()
_status_at = ctypes.addressof(_status)
_set_aside = deque[tuple[int, int]]()  # stops and ends of other threads during `wait_for`


def wait(thread: int = -1) -> tuple[int, int]:
    """Wait until a thread stops or ends. Return its id and wait status, or (0, 0) after a signal to the recorder.

    Raises ChildProcessError if all children have ended.
    """
    if _set_aside and thread == -1:
        return _set_aside.popleft()
    if CORE is not None:
        return CORE.wait(thread)
    found = _wait4(thread, _status_at, _ALL_CHILDREN, None)
    if found > 0:
        return found, _status.value
    number = ctypes.get_errno()
    if number == errno.ECHILD:
        raise ChildProcessError(number, os.strerror(number))
    return 0, 0


def has_stops_put_back() -> bool:
    """Return whether `wait` would return without asking the kernel."""
    return bool(_set_aside)


def put_back(thread: int, status: int) -> None:
    """Let `wait` return this stop again, before other stops."""
    _set_aside.appendleft((thread, status))


def wait_for(thread: int) -> int:
    """Return the wait status of a thread that is about to stop.

    Raises ThreadGone if the thread has ended, or if another thread has taken over its id by execve. The function may
    notice this only after the next signal to the recorder.
    """
    while True:
        found, status = wait(thread)
        if found:
            return stopped(thread, status)
        _wait_for_others(thread)


def stopped(thread: int, status: int) -> int:
    """Return the wait status. Raises ThreadGone if the thread has ended."""
    if not os.WIFSTOPPED(status):
        raise ThreadGone(thread, status)
    if status >> 16 == EXECUTED:
        _set_aside.append((thread, status))
        raise ThreadGone(thread)
    return status


def _wait_for_others(thread: int) -> None:
    """Wait until a process's other threads have ended. The kernel reports the first thread last."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for other in map(int, os.listdir(f"/proc/{thread}/task")):
            if other != thread:
                with suppress(ChildProcessError):  # its end was already reported
                    found, status = os.waitpid(other, os.WNOHANG | _ALL_CHILDREN)
                    if found:
                        _set_aside.append((found, status))


_info = ctypes.create_string_buffer(88)
_info_at = ctypes.addressof(_info)
_entered = struct.Struct("<8xQQQ6Q")
_left = struct.Struct("<24xq")


def entered(thread: int) -> EnteredCall:
    if CORE is not None:
        return EnteredCall(*CORE.entered(thread))
    if _ptrace(_CALL_INFO, thread, 88, _info_at) < 0:
        request(_CALL_INFO, thread, 88, _info_at)
    next_address, stack, number, *arguments = _entered.unpack_from(_info)
    return EnteredCall(number, tuple(arguments), next_address, stack)


def result(thread: int) -> int:
    """Return the result of a thread's last call."""
    if CORE is not None:
        return CORE.result(thread)
    if _ptrace(_CALL_INFO, thread, 88, _info_at) < 0:
        request(_CALL_INFO, thread, 88, _info_at)
    found: int = _left.unpack_from(_info)[0]
    return found


_siginfo = ctypes.create_string_buffer(128)
_siginfo_at = ctypes.addressof(_siginfo)
_SEGV_ACCERR = 2


def memory_fault(thread: int) -> MemoryFault:
    if CORE is not None:
        address, code = CORE.memory_fault(thread)
    else:
        request(_SIGNAL_INFO, thread, 0, _siginfo_at)
        code, address = struct.unpack_from("<8xi4xQ", _siginfo)
    return MemoryFault(address, code == _SEGV_ACCERR)


_message = ctypes.c_ulong()


def event_message(thread: int) -> int:
    """Return the value of an event: the id of the new thread, or the former id of the thread that called execve."""
    request(_EVENT_MESSAGE, thread, 0, ctypes.addressof(_message))
    return _message.value


_mask = ctypes.c_uint64()
_mask_at = ctypes.addressof(_mask)


def block_signals(thread: int) -> int:
    """Block the signals of a stopped thread, except those raised by instructions. Return the previous mask."""
    if CORE is not None:
        return CORE.block_signals(thread, _STEPPING_MASK)
    request(_GET_MASK, thread, 8, _mask_at)
    before = _mask.value
    set_mask(thread, before | _STEPPING_MASK)
    return before


def set_mask(thread: int, mask: int) -> None:
    if CORE is not None:
        CORE.set_mask(thread, mask)
        return
    _mask.value = mask
    request(_SET_MASK, thread, 8, _mask_at)


_local = (ctypes.c_ulong * 2)()
_remote = (ctypes.c_ulong * 2)()
_local_at, _remote_at = ctypes.addressof(_local), ctypes.addressof(_remote)


def read_memory(thread: int, address: int, size_bytes: int) -> bytes:
    """Return bytes of a thread's memory. The result is shorter if the mapping ends.

    Raises OSError if no byte is readable, ThreadGone if the thread has ended.
    """
    if not size_bytes:
        return b""
    if CORE is not None:
        return CORE.read_memory(thread, address, size_bytes)
    buffer = ctypes.create_string_buffer(size_bytes)
    _local[0], _local[1] = ctypes.addressof(buffer), size_bytes
    _remote[0], _remote[1] = address, size_bytes
    count: int = _read_memory(thread, _local_at, 1, _remote_at, 1, 0)
    if count < 0:
        raise _no_memory(thread, address)
    return buffer.raw[:count]


def _no_memory(thread: int, address: int) -> Exception:
    """Return the exception for a failed memory access."""
    number = ctypes.get_errno()
    return (
        ThreadGone(thread) if number == errno.ESRCH else OSError(number, os.strerror(number), f"memory at {address:#x}")
    )


def write_memory(thread: int, address: int, data: bytes) -> None:
    """Write bytes to a thread's memory. Raises OSError if that is impossible, ThreadGone if the thread has ended."""
    buffer = ctypes.create_string_buffer(data, len(data))
    _local[0], _local[1] = ctypes.addressof(buffer), len(data)
    _remote[0], _remote[1] = address, len(data)
    if _write_memory(thread, _local_at, 1, _remote_at, 1, 0) != len(data):
        raise _no_memory(thread, address)


def read_text(thread: int, address: int) -> bytes:
    """Return a C string from a thread's memory, truncated to the maximum path length. Raises OSError."""
    found = b""
    while len(found) < _PATH_BYTES_MAX:
        start = address + len(found)
        found += read_memory(thread, start, 256 - start % 256)  # aligned: no read crosses a page boundary
        if 0 in found:
            return found[: found.index(0)]
    return found


def start(
    executable: str,
    program: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    filter_code: bytes,
    prepare: Callable[[], None],
) -> int:
    """Start a program in a new session and return its process id. filter_code: the seccomp filter.

    prepare: called in the new process before the program. Raises TraceRefusedError, or OSError if the program cannot be
    executed.
    """
    failed, failing = os.pipe()
    seized, seizing = os.pipe()
    process = os.fork()
    if not process:
        _execute_program(
            executable, program, directory, environment, filter_code, prepare, (failed, seizing), seized, failing
        )
    os.close(seized)
    os.close(failing)
    try:
        request(_SEIZE, process, 0, _OPTIONS)
    except OSError as error:
        raise TraceRefusedError(_refusal_text(error)) from error
    finally:
        os.write(seizing, b"x")
        os.close(seizing)
    answer = _read_start_error(process, failed)
    os.close(failed)
    what, _, number = answer.partition(" ")
    if what == "seccomp":
        raise TraceRefusedError(
            f"seccomp: {os.strerror(int(number))}: the kernel, or a filter around us, refuses filters"
        )
    if what:
        raise OSError(int(number), os.strerror(int(number)), executable)
    return process


def _read_start_error(process: int, failed: int) -> str:
    """Return the error that the new process has sent, or "" after a success."""
    os.set_blocking(failed, False)
    while True:
        found, status = wait(process)
        try:
            answer = os.read(failed, 100).decode()
        except BlockingIOError:
            answer = ""
        if answer:
            return answer
        if found and status >> 16 == EXECUTED:
            return ""
        if found and os.WIFSTOPPED(status):
            go_on(process, CONTINUE, 0 if status >> 16 else os.WSTOPSIG(status))


def _execute_program(
    executable: str,
    program: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    filter_code: bytes,
    prepare: Callable[[], None],
    parents: tuple[int, ...],
    seized: int,
    failing: int,
) -> None:
    """Execute the program in the new process."""
    what = "exec"
    try:
        for one in parents:
            os.close(one)
        os.read(seized, 1)
        os.setsid()
        os.chdir(directory)
        # Python ignores these signals; the program must not.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        prepare()
        what = "seccomp"
        code = ctypes.create_string_buffer(filter_code, len(filter_code))
        head = ctypes.create_string_buffer(struct.pack("<H6xQ", len(filter_code) // 8, ctypes.addressof(code)))
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(head), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")
        what = "exec"
        os.execve(executable, list(program), dict(environment))
    except OSError as error:
        os.write(failing, f"{what} {error.errno}".encode())
    finally:
        os._exit(127)


_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"


def _refusal_text(error: OSError) -> str:
    """Return why a process may not trace its own child, and how to allow it."""
    try:
        with open(_SCOPE) as file:
            scope = file.read().strip()
    except OSError:
        scope = ""
    if scope in ("2", "3"):
        how = "set kernel.yama.ptrace_scope to 0 or 1" if scope == "2" else "boot the machine with 0 or 1 there"
        return f"ptrace: {error.strerror}: {_SCOPE} is {scope}: {how}"
    return (
        f"ptrace: {error.strerror}: a seccomp profile forbids it, or another tracer holds this process. "
        "In Docker: run with --cap-add SYS_PTRACE, or --security-opt seccomp=unconfined; "
        'in Kubernetes: securityContext.capabilities.add: ["SYS_PTRACE"]'
    )
