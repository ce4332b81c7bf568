"""The loop that stands beside a program: each stop of a thread is looked at, noted, and ended.

One recorded call is under way at a time. A thread that comes to another waits in front of it, so the order of the
record is the order in which things happened. A call that sleeps while others wait (it writes to a pipe that nobody
reads) lets these go first, and is noted when it has ended.
"""

import errno
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from . import kernel_stores, maps, ptrace
from .call_faults import CallFaults
from .calls import ContentCalls
from .control import CallFault
from .files import KnownFiles
from .kernel_stores import KernelStores
from .machines import Architecture
from .maps import MapCalls
from .names import OLDER_CALLS, NameCalls
from .notes import ProgramNotes
from .processor import SharedProcessor
from .ptrace import ThreadGone
from .schedule import TICK_SECONDS, SeededOrder
from .seccomp import AnyBit, filter_of
from .stacks import StackWalker
from .threads import AddressSpace, CallInjector, Finish, TracedThread, is_thread_of, shares_memory

_CREATES = AnyBit(2, os.O_CREAT | os.O_TRUNC | 0o20000000)
_ALWAYS = """
write writev pwrite64 pwritev pwritev2 sendfile splice copy_file_range io_submit
fsync fdatasync sync syncfs truncate ftruncate fallocate
rename renameat renameat2 link linkat unlink unlinkat mkdir mkdirat rmdir
symlink symlinkat mknod mknodat creat openat2
io_uring_setup
"""
_PROCESSORS = ("sched_getaffinity", "sched_setaffinity")
"""Calls by which a program could notice that it shares the recorder's."""
_STOPS: dict[str, AnyBit | None] = {
    **dict.fromkeys(_ALWAYS.split()),
    **dict.fromkeys(_PROCESSORS),
    "open": AnyBit(1, _CREATES.bits),
    "openat": _CREATES,
    "mmap": AnyBit(3, 1),  # MAP_SHARED
}
"""Calls that every process stops at."""
_AT_CALL = 0x7F | signal.SIGTRAP << 8 | ptrace.CALLS << 16
_BEHIND_CALL = 0x7F | (signal.SIGTRAP | 0x80) << 8
"""Wait statuses of the two stops that most are."""
_SLOW_SECONDS = 0.05
_JOB_CONTROL = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_Handler = Callable[..., Finish | None]
_Look = Callable[[TracedThread], None]


def _handler_of(name: str, owners: Iterable[object]) -> _Handler | None:
    """Return the method that covers a call, None if no owner has one."""
    newer, arguments_of = OLDER_CALLS.get(name, (name, None))
    found: _Handler | None = next((getattr(one, f"on_{newer}") for one in owners if hasattr(one, f"on_{newer}")), None)
    if found is None or arguments_of is None:
        return found
    return lambda thread, *arguments: found(thread, *arguments_of(*arguments))


class ProgramTimeoutError(Exception):
    """A program has not ended in its time. Says what is still there."""


class Tracer:
    """Records one program. Must be used in the main thread of a process that has no other children.

    root: a real path, below which everything is recorded. stores: "step", each store through a map is recorded;
    "call", what has come by stores is found at the next recorded call. order: which thread goes on first where several
    come to a recorded step; None: the first that comes. fault: what one of the calls is made to meet. walker: finds the
    stack behind each step.
    """

    def __init__(
        self,
        machine: Architecture,
        root: str,
        notes: ProgramNotes,
        stores: str = "step",
        order: SeededOrder | None = None,
        fault: CallFault | None = None,
        walker: StackWalker | None = None,
    ) -> None:
        self._walker = walker
        self.files = KnownFiles(root)
        self._notes = notes
        self._machine = machine
        injector = self._injector = CallInjector(machine)
        into_memory = kernel_stores.INTO_MEMORY if stores == "step" else {}
        self._maps = MapCalls(machine, self.files, notes, injector, stores == "step", into_memory)
        self._kernel_stores = KernelStores(self._maps, injector)
        contents = ContentCalls(self.files, notes, self._maps)
        names = NameCalls(self.files, notes, self._maps, contents)
        self._faults = fault and CallFaults(fault, self.files, names, notes, injector)
        self._handlers: dict[int, tuple[str, _Handler | None]] = {}
        for name in (*_STOPS, *maps.CALLS, *kernel_stores.KNOWN):
            if name in machine.calls:
                self._handlers[machine.calls[name]] = (name, _handler_of(name, (contents, names, self._maps)))
        self._handlers[machine.calls["io_uring_setup"]] = ("io_uring_setup", self._refuse_ring)
        self._threads: dict[int, TracedThread] = {}
        self._early: set[int] = set()
        """Threads that have stopped before it was known whose they are."""
        self._under_way: TracedThread | None = None
        self._waiting: deque[tuple[TracedThread, _Look]] = deque()
        """Threads that have stopped while a call is under way, and what their stops are looked at by."""
        self._order = order
        self._held: dict[TracedThread, _Look] = {}
        """Those that the order is to pick from."""
        self._tick_seconds = _SLOW_SECONDS if order is None else TICK_SECONDS
        self._slow_ticks = 0
        """For how many ticks others have waited for the call that is under way."""
        self._processor = SharedProcessor()
        self._first = 0
        self._status: int | None = None
        """How the first process has ended."""
        self._processes = 0
        self._numbers = 0

    def close(self) -> None:
        """Give back all descriptors and maps of ours."""
        self._maps.close()
        self.files.close()

    def run(
        self,
        executable: str,
        program: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        seconds_max: float,
        prepare: Callable[[], None],
    ) -> int:
        """Run a program, and all that it starts, to the end of the last one; return what the first has ended with.

        Raises ProgramTimeoutError, and what ptrace.start raises.
        """
        self._processor.share()
        first = self._first = ptrace.start(
            executable, program, directory, environment, filter_of(self._machine, _STOPS), prepare
        )
        self._adopt(first, first, self._new_process(), AddressSpace())
        ptrace.go_on(first)
        deadline = time.monotonic() + seconds_max
        signal.signal(signal.SIGALRM, lambda *_: None)  # it ends a wait, no more
        signal.setitimer(signal.ITIMER_REAL, self._tick_seconds, self._tick_seconds)
        try:
            while True:
                found, status = ptrace.wait()
                if found and os.WIFSTOPPED(status):
                    self._stopped(found, status)
                elif found:
                    self._ended(found, status)
                else:
                    self._tick(deadline, seconds_max)
        except ChildProcessError:
            self._maps.settle()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)

    def _tick(self, deadline: float, seconds_max: float) -> None:
        if time.monotonic() > deadline:
            left = len({thread.group for thread in self._threads.values()})
            who = (
                f"the program has ended, but {left} processes of it have"
                if self._status is not None
                else "the program has"
            )
            raise ProgramTimeoutError(f"{who} not ended within {seconds_max:g} s")
        if (self._waiting or self._held) and self._under_way is not None:
            if self._slow_ticks * self._tick_seconds >= _SLOW_SECONDS:
                self._under_way = None  # its own end is noted when it comes
            self._slow_ticks += 1
        self._next()

    # -- threads -------------------------------------------------------------------------------------

    def _new_process(self) -> int:
        self._processes += 1
        return self._processes - 1

    def _adopt(self, thread: int, group: int, process: int, memory: AddressSpace) -> None:
        self._threads[thread] = TracedThread(thread, group, process, self._numbers, memory)
        self._numbers += 1
        if thread in self._early:
            self._early.discard(thread)
            ptrace.go_on(thread)

    def _born(self, parent: TracedThread, event: int) -> None:
        """Know a thread that another one has just made."""
        child = ptrace.event_message(parent.id)
        self._processor.release((*self._threads, child))
        if event == ptrace.CLONED and is_thread_of(child, parent.group):
            self._adopt(child, parent.group, parent.process, parent.memory)
            return
        shares = event == ptrace.VFORKED or (event == ptrace.CLONED and shares_memory(parent.id))
        self._adopt(child, child, self._new_process(), parent.memory if shares else parent.memory.copied())

    def _executed(self, thread: TracedThread) -> None:
        """Know that a thread is another program now: the only thread of its process, by the number of the first."""
        former = ptrace.event_message(thread.id)
        if former != thread.id:
            self._drop(thread)
            thread = self._threads.pop(former)
            self.files.forget_thread(former)
            thread.id = thread.group
            self._threads[thread.id] = thread
        thread.memory = AddressSpace()
        thread.task = -1

    def _ended(self, number: int, status: int) -> None:
        if number == self._first:
            self._status = status
        self._early.discard(number)
        thread = self._threads.pop(number, None)
        if thread is not None:
            self._drop(thread)

    def _drop(self, thread: TracedThread) -> None:
        self.files.forget_thread(thread.id)
        self._maps.forget_thread(thread.id)
        self._kernel_stores.forget_thread(thread.id)
        self._waiting = deque(one for one in self._waiting if one[0] is not thread)
        self._held.pop(thread, None)
        if thread.finish is not None and thread is self._under_way:
            self._notes.unseen(thread.call, "its thread was killed inside: it is not known what it has done")
        if thread is self._under_way:
            self._under_way = None
            self._next()

    def _present(self, thread: TracedThread, call: str) -> None:
        if not self._notes.has_stepped(thread.task):  # its first calls may be made before it has a name of its own
            try:
                with open(f"/proc/{thread.id}/comm") as file:
                    name = file.read().rstrip("\n")
            except OSError:
                raise ThreadGone(thread.id) from None
            if thread.task < 0:
                thread.task = self._notes.new_task(thread.process, thread.number, name)
            else:
                self._notes.rename(thread.task, name)
        self._notes.present(thread.task, call, thread.stack)

    def _take_stack(self, thread: TracedThread) -> None:
        if self._walker is not None:
            thread.stack = self._walker.number(thread)

    # -- stops ---------------------------------------------------------------------------------------

    def _stopped(self, number: int, status: int) -> None:
        thread = self._threads.get(number)
        if thread is None:
            self._early.add(number)
            return
        try:
            if status == _BEHIND_CALL:
                self._in_turn(thread, self._leave)
            elif status == _AT_CALL:
                self._at_step(thread, self._enter)
            else:
                self._look(thread, status)
        except ThreadGone as gone:
            self._lost(gone)

    def _lost(self, gone: ThreadGone) -> None:
        """Know that a thread has been killed while it was looked at."""
        if gone.status is not None:
            self._ended(gone.thread, gone.status)

    def _look(self, thread: TracedThread, status: int) -> None:
        event, number = status >> 16, os.WSTOPSIG(status)
        if event in (ptrace.FORKED, ptrace.VFORKED, ptrace.CLONED):
            self._born(thread, event)
            ptrace.go_on(thread.id)
        elif event == ptrace.EXECUTED:
            self._executed(thread)
            ptrace.go_on(thread.group)
        elif event == ptrace.STOPPED:
            ptrace.go_on(thread.id, ptrace.LISTEN if number in _JOB_CONTROL else ptrace.CONTINUE)
        elif number == signal.SIGSEGV and thread.memory.maps:
            self._at_step(thread, self._fault)
        else:
            ptrace.go_on(thread.id, ptrace.CONTINUE, number)

    def _at_step(self, thread: TracedThread, look: _Look) -> None:
        """Look at a thread that has come to a step, when the order says so."""
        if self._order is None:
            self._in_turn(thread, look)
        else:
            self._order.arrived(thread)
            self._held[thread] = look
            self._next()

    def _in_turn(self, thread: TracedThread, look: _Look) -> None:
        """Look at a stop now, or when the call that is under way has ended."""
        if self._under_way is None or self._under_way is thread:
            look(thread)
        else:
            self._waiting.append((thread, look))

    def _next(self) -> None:
        while self._under_way is None and (turn := self._turn()) is not None:
            thread, look = turn
            try:
                look(thread)
            except ThreadGone as gone:
                self._lost(gone)

    def _turn(self) -> tuple[TracedThread, _Look] | None:
        """Take who is to be looked at next; None if there is nobody, or it is not known yet who."""
        if self._waiting:
            return self._waiting.popleft()
        if self._order is None or not self._held:
            return None
        picked = self._order.pick(self._held.keys(), self._threads.values())
        return None if picked is None else (picked, self._held.pop(picked))

    def _fault(self, thread: TracedThread) -> None:
        """Look at a thread with SIGSEGV, which it may have got at a store to a map."""
        self._take_stack(thread)
        self._present(thread, "")
        deliver = self._maps.stored(thread)
        ptrace.go_on(thread.id, ptrace.CONTINUE, signal.SIGSEGV if deliver is None else deliver)

    def _enter(self, thread: TracedThread) -> None:
        """Look at the call that a thread is about to make."""
        call = ptrace.entered(thread.id)
        name, handler = self._handlers.get(call.number) or (f"call {call.number}", None)
        thread.memory.call_at = call.behind - self._machine.call_bytes
        if handler is None:
            if name in _PROCESSORS:
                self._processor.release(self._threads)
            self._present(thread, name)
            thread.finish = self._kernel_stores.entered(thread, call, name)
        else:
            thread.finish = handler(thread, *call.arguments)
            if thread.finish is not None:
                self._under_way, self._slow_ticks = thread, 0
                self._take_stack(thread)
                self._present(thread, name)
                if self._faults is not None:
                    thread.finish = self._faults.finish_of(thread, call, name, thread.finish)
                self._maps.settle()
        thread.call = name
        ptrace.go_on(thread.id, ptrace.CONTINUE if thread.finish is None else ptrace.TO_EXIT)

    def _refuse_ring(self, thread: TracedThread, *_: int) -> Finish:
        """Answer io_uring_setup(2) with ENOSYS: the kernel would carry out the requests of a ring unseen."""
        self._injector.cancel_call(thread)
        self._notes.refused["io_uring"] = "ENOSYS"
        return lambda _result: self._injector.set_register(thread, self._machine.result, -errno.ENOSYS)

    def _leave(self, thread: TracedThread) -> None:
        """Note the call that a thread has made."""
        finish, thread.finish = thread.finish, None
        if finish is not None:
            self._present(thread, thread.call)
            finish(ptrace.result(thread.id))
            self._maps.close_pages(thread)
        ptrace.go_on(thread.id)
        if thread is self._under_way:
            self._under_way = None
            self._next()
