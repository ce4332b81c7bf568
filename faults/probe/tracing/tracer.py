"""Tracer: runs a program, and handles and records each stop of its threads.

Only one recorded call runs at a time. Other threads wait before their recorded calls, so the record has the real order.
If the call sleeps, for example in a write to a full pipe, the other threads continue, and the call is recorded at its
end.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from . import kernel_stores, maps, ptrace
from .call_faults import CallFaults
from .call_paths import FileCall
from .calls import ContentCalls
from .control import AS_IT_IS, CONTROL, CUT, RuleError, RunControl, parse_fault_rule
from .files import KnownFiles
from .kernel_stores import KernelStores
from .machines import Architecture
from .maps import MapCalls
from .names import OLDER_CALLS, NameCalls
from .notes import ProgramNotes
from .plain_calls import PlainCalls
from .processor import SharedProcessor
from .ptrace import EnteredCall, ThreadGone
from .ring_calls import RingCalls
from .ring_operations import ENTER, RingOperations
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
io_uring_setup io_uring_register
"""
_PROCESSORS = ("sched_getaffinity", "sched_setaffinity")
"""Calls that reveal that the program is pinned to the recorder's CPU."""
_STOPS: dict[str, AnyBit | None] = {
    **dict.fromkeys(_ALWAYS.split()),
    **dict.fromkeys(_PROCESSORS),
    "open": AnyBit(1, _CREATES.bits),
    "openat": _CREATES,
    "mmap": AnyBit(3, 1),  # MAP_SHARED
    "io_uring_enter": AnyBit(1, 0xFFFF_FFFF),  # submits requests
}
"""Calls at which every process stops."""
_LOCKS = {"fcntl": AnyBit(1, 4), "flock": None}
"""Lock calls, at which threads stop if their order is seeded. All lock commands of fcntl(2) have this bit."""
_AT_CALL = 0x7F | signal.SIGTRAP << 8 | ptrace.CALLS << 16
AFTER_CALL = 0x7F | (signal.SIGTRAP | 0x80) << 8
_AFTER_INSTRUCTION = 0x7F | signal.SIGTRAP << 8  # wait statuses of the three most frequent stops
_SLOW_SECONDS = 0.05
_JOB_CONTROL = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_Handler = Callable[..., Finish | None]
_Look = Callable[[TracedThread], None]


def _handler_of(name: str, owners: Iterable[object]) -> _Handler | None:
    """Return the method that records a call, or None."""
    newer, arguments_of = OLDER_CALLS.get(name, (name, None))
    found: _Handler | None = next((getattr(one, f"on_{newer}") for one in owners if hasattr(one, f"on_{newer}")), None)
    if found is None or arguments_of is None:
        return found
    return lambda thread, *arguments: found(thread, *arguments_of(*arguments))


class ProgramTimeoutError(Exception):
    """A program exceeded its time limit. The message lists the remaining processes."""


class Tracer:
    """Records one program. Must be used in the main thread of a process without other children.

    root: a real path, below which files are recorded. stores: "step" records each store to a mapping, "call" compares
    mappings at each recorded call. order: selects the next thread; None: the first stopped thread. control: contains
    the fault to inject. walker: finds the stack of each step.
    """

    def __init__(
        self,
        machine: Architecture,
        root: str,
        notes: ProgramNotes,
        stores: str = "step",
        order: SeededOrder | None = None,
        control: RunControl = AS_IT_IS,
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
        contents = ContentCalls(self.files, notes, self._maps, self._add_rule)
        names = self._names = NameCalls(self.files, notes, self._maps, contents)
        self._plain = PlainCalls(machine, self.files, notes, self._maps, contents)
        operations = RingOperations(self.files, notes, contents, names, self._maps)
        self._rings = RingCalls(self.files, notes, self._maps, injector, operations)
        self.faults: CallFaults | None = None
        if control.fault is not None or control.listed:
            self.faults = CallFaults(control, self.files, names, notes, injector)
        owners = (contents, names, self._maps, self._rings)
        self._handlers: dict[int, tuple[str, _Handler | None]] = {}
        for name in (*_STOPS, *maps.CALLS, *kernel_stores.KNOWN):
            if name in machine.calls:
                self._handlers[machine.calls[name]] = (name, _handler_of(name, owners))
        self._locks = {machine.calls[name] for name in _LOCKS}
        self._threads: dict[int, TracedThread] = {}
        self._early: set[int] = set()  # new threads whose creation the kernel has not reported yet
        self._under_way: TracedThread | None = None
        self._waiting: deque[tuple[TracedThread, _Look]] = deque()
        """Threads that stopped during the current call, each with the handler of its stop."""
        self._order = order
        self._held: dict[TracedThread, _Look] = {}  # threads from which the order selects the next
        self._tick_seconds = _SLOW_SECONDS if order is None else TICK_SECONDS
        self._slow_ticks = 0  # number of checks since other threads began to wait for the current call
        self._processor = SharedProcessor()
        self._first = 0
        self._status: int | None = None  # exit status of the first process
        self._processes = 0
        self._numbers = 0

    def close(self) -> None:
        self._plain.close()
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
        """Run a program until all its processes have ended. Return the exit code of the first process.

        Raises ProgramTimeoutError, and the errors of ptrace.start.
        """
        self._processor.pin_to_current_cpu()
        code = filter_of(self._machine, _STOPS if self._order is None else _STOPS | _LOCKS)
        first = self._first = ptrace.start(executable, program, directory, environment, code, prepare)
        self._add_thread(first, first, self._new_process(), AddressSpace())
        ptrace.go_on(first)
        deadline = time.monotonic() + seconds_max
        signal.signal(signal.SIGALRM, lambda *_: None)  # the signal only interrupts a wait
        signal.setitimer(signal.ITIMER_REAL, self._tick_seconds, self._tick_seconds)
        try:
            while True:
                found, status = self._wait()
                if found and os.WIFSTOPPED(status):
                    self._on_stop(found, status)
                elif found:
                    self._on_thread_end(found, status)
                else:
                    self._check_time_limit(deadline, seconds_max)
        except ChildProcessError:
            self._maps.record_open_pages()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)

    def _wait(self) -> tuple[int, int]:
        is_quick = self._executes_plain_calls and self._under_way is None
        return self._plain.wait(self._threads) if is_quick else ptrace.wait()

    @property
    def _executes_plain_calls(self) -> bool:
        """Return whether no order, fault or stack needs the stops of plain calls."""
        return self._order is None and self._walker is None and self.faults is None

    def _check_time_limit(self, deadline: float, seconds_max: float) -> None:
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
                self._under_way = None  # the call is recorded when it ends
            self._slow_ticks += 1
        self._handle_waiting_threads()

    # -- threads -------------------------------------------------------------------------------------

    def _new_process(self) -> int:
        self._processes += 1
        return self._processes - 1

    def _add_thread(self, thread: int, group: int, process: int, memory: AddressSpace) -> None:
        self._threads[thread] = TracedThread(thread, group, process, self._numbers, memory)
        self._numbers += 1
        if thread in self._early:
            self._early.discard(thread)
            ptrace.go_on(thread)

    def _register_thread(self, parent: TracedThread, event: int) -> None:
        """Register a new thread. parent: the thread that created it."""
        child = ptrace.event_message(parent.id)
        self._processor.release((*self._threads, child))
        if event == ptrace.CLONED and is_thread_of(child, parent.group):
            self._add_thread(child, parent.group, parent.process, parent.memory)
            return
        shares = event == ptrace.VFORKED or (event == ptrace.CLONED and shares_memory(parent.id))
        self._add_thread(child, child, self._new_process(), parent.memory if shares else parent.memory.copied())

    def _register_exec(self, thread: TracedThread) -> None:
        """Register a successful execve. Only the calling thread remains in the process."""
        former = ptrace.event_message(thread.id)
        if former != thread.id:
            self._forget_thread(thread)
            thread = self._threads.pop(former)
            self.files.forget_thread(former)
            self._plain.forget_thread(former)
            thread.id = thread.group
            self._threads[thread.id] = thread
        self._plain.forget_thread(thread.id)
        thread.memory = AddressSpace()
        thread.task = -1

    def _on_thread_end(self, number: int, status: int) -> None:
        if number == self._first:
            self._status = status
        self._early.discard(number)
        thread = self._threads.pop(number, None)
        if thread is not None:
            self._forget_thread(thread)

    def _forget_thread(self, thread: TracedThread) -> None:
        self.files.forget_thread(thread.id)
        self._plain.forget_thread(thread.id)
        self._maps.forget_thread(thread.id)
        self._kernel_stores.forget_thread(thread.id)
        self._rings.forget_thread(thread.id)
        self._waiting = deque(one for one in self._waiting if one[0] is not thread)
        self._held.pop(thread, None)
        if thread.finish is not None and thread is self._under_way:
            self._notes.report_unseen(thread.call, "its thread was killed during the call, so its effect is unknown")
        if thread is self._under_way:
            self._under_way = None
            self._handle_waiting_threads()

    def _set_notes_context(self, thread: TracedThread, call: str) -> None:
        if not self._notes.has_stepped(thread.task):  # a thread may make calls before it sets its own name
            try:
                with open(f"/proc/{thread.id}/comm") as file:
                    name = file.read().rstrip("\n")
            except OSError:
                raise ThreadGone(thread.id) from None
            if thread.task < 0:
                thread.task = self._notes.new_task(thread.process, thread.number, name)
            else:
                self._notes.rename(thread.task, name)
        self._notes.set_context(thread.task, call, thread.stack)

    def _take_stack(self, thread: TracedThread) -> None:
        if self._walker is not None:
            thread.stack = self._walker.number(thread)

    # -- stops ---------------------------------------------------------------------------------------

    def _on_stop(self, number: int, status: int) -> None:
        thread = self._threads.get(number)
        if thread is None:
            self._early.add(number)
            return
        try:
            if status == AFTER_CALL:
                self._handle_now_or_after_call(thread, self._on_call_exit)
            elif status == _AT_CALL:
                self._handle_step(thread, self._on_call_entry)
            elif status == _AFTER_INSTRUCTION and thread.instructions_left:
                self._count_instruction(thread)
            else:
                thread.instructions_left = 0
                self._handle_stop(thread, status)
        except ThreadGone as gone:
            self._handle_killed_thread(gone)

    def _handle_killed_thread(self, gone: ThreadGone) -> None:
        """Handle the end of a thread that was killed during its stop."""
        if gone.status is not None:
            self._on_thread_end(gone.thread, gone.status)

    def _handle_stop(self, thread: TracedThread, status: int) -> None:
        event, number = status >> 16, os.WSTOPSIG(status)
        if event in (ptrace.FORKED, ptrace.VFORKED, ptrace.CLONED):
            self._register_thread(thread, event)
            ptrace.go_on(thread.id)
        elif event == ptrace.EXECUTED:
            self._register_exec(thread)
            ptrace.go_on(thread.group)
        elif event == ptrace.STOPPED:
            ptrace.go_on(thread.id, ptrace.LISTEN if number in _JOB_CONTROL else ptrace.CONTINUE)
        elif number == signal.SIGSEGV and thread.memory.maps:
            self._handle_step(thread, self._handle_segfault)
        else:
            ptrace.go_on(thread.id, ptrace.CONTINUE, number)

    def _handle_step(self, thread: TracedThread, look: _Look) -> None:
        """Hold a thread at a recorded step until the order selects the thread."""
        if self._order is None:
            self._handle_now_or_after_call(thread, look)
        else:
            self._order.count_step(thread)
            self._held[thread] = look
            self._handle_waiting_threads()

    def _count_instruction(self, thread: TracedThread) -> None:
        """Hold a thread that has executed its extra instructions."""
        thread.instructions_left -= 1
        if thread.instructions_left:
            ptrace.go_on(thread.id, ptrace.STEP)
        else:
            self._handle_step(thread, self._continue)

    def _continue(self, thread: TracedThread, signal_number: int = 0) -> None:
        ptrace.go_on(thread.id, ptrace.STEP if thread.instructions_left else ptrace.CONTINUE, signal_number)

    def _handle_now_or_after_call(self, thread: TracedThread, look: _Look) -> None:
        """Handle a stop now, or after the current call."""
        if self._under_way is None or self._under_way is thread:
            look(thread)
        else:
            self._waiting.append((thread, look))

    def _handle_waiting_threads(self) -> None:
        while self._under_way is None and (turn := self._next_stopped_thread()) is not None:
            thread, look = turn
            may_be_plain = look == self._on_call_entry and self._executes_plain_calls
            try:
                if not (may_be_plain and self._plain.execute(thread, self._threads)):
                    look(thread)
            except ThreadGone as gone:
                self._handle_killed_thread(gone)

    def _next_stopped_thread(self) -> tuple[TracedThread, _Look] | None:
        """Remove and return the next stopped thread and its handler, or return None."""
        if self._waiting:
            return self._waiting.popleft()
        if self._order is None or not self._held:
            return None
        picked = self._order.pick_thread(self._held.keys(), self._threads.values())
        return None if picked is None else (picked, self._held.pop(picked))

    def _handle_segfault(self, thread: TracedThread) -> None:
        """Handle a SIGSEGV, perhaps raised by a store to a mapping."""
        self._take_stack(thread)
        self._set_notes_context(thread, "")
        deliver = self._maps.run_store(thread)
        self._continue(thread, signal.SIGSEGV if deliver is None else deliver)

    def _on_call_entry(self, thread: TracedThread) -> None:
        call = ptrace.entered(thread.id)
        if call.number in self._locks:
            self._continue(thread)
            return
        name, handler = self._handlers.get(call.number) or (f"call {call.number}", None)
        thread.memory.call_at = call.next_address - self._machine.call_bytes
        if handler is None:
            if name in _PROCESSORS:
                self._processor.release(self._threads)
            if name == ENTER:
                thread.finish = self._execute_submission(thread, call)
            else:
                self._set_notes_context(thread, name)
                thread.finish = self._kernel_stores.entered(thread, call, name)
        else:
            thread.finish = handler(thread, *call.arguments)
            if thread.finish is not None:
                self._under_way, self._slow_ticks = thread, 0
                self._take_stack(thread)
                self._set_notes_context(thread, name)
                if self.faults is not None:
                    thread.finish = self.faults.finish_for_call(FileCall(thread, name, call.arguments), thread.finish)
                self._maps.record_open_pages()
        thread.call = name
        if thread.finish is None:
            self._continue(thread)
        else:
            ptrace.go_on(thread.id, ptrace.TO_EXIT)

    def _execute_submission(self, thread: TracedThread, call: EnteredCall) -> Finish | None:

        def prepare() -> None:
            self._take_stack(thread)
            self._set_notes_context(thread, ENTER)
            self._maps.record_open_pages()

        self._rings.faults = self.faults
        return self._rings.execute_submission(thread, call, prepare)

    def _add_rule(self, text: str) -> None:
        """Mark a crash point or add a fault at the program's request. An invalid rule is reported as unsupported."""
        if text.strip() == CUT:
            self._notes.mark_crash_point()
            return
        try:
            fault = parse_fault_rule(text)
        except RuleError as error:
            self._notes.report_unseen(CONTROL, str(error))
            return
        if self.faults is None:
            self.faults = CallFaults(AS_IT_IS, self.files, self._names, self._notes, self._injector)
        self.faults.add(fault)

    def _on_call_exit(self, thread: TracedThread) -> None:
        finish, thread.finish = thread.finish, None
        if finish is not None:
            self._set_notes_context(thread, thread.call)
            finish(ptrace.result(thread.id))
            self._maps.close_pages(thread)
            self._plain.add_thread(thread)
        self._continue(thread)
        if thread is self._under_way:
            self._under_way = None
            self._handle_waiting_threads()
