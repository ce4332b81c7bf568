"""Tracer of a live machine: stops all its processes at once, after a given step.

The tracer stops all threads before it kills any. A stopped thread is like a slow thread for other processes, so no
process sees the death of another, as in a power cut. A system call in progress completes first, and is recorded.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from ..tracing import ptrace
from ..tracing.machines import Architecture
from ..tracing.notes import ProgramNotes
from ..tracing.ptrace import ThreadGone
from ..tracing.threads import AddressSpace, TracedThread
from ..tracing.tracer import AFTER_CALL, Tracer

_INTERRUPT = 0x4207
_IDLE_SECONDS = 0.1
"""A machine without a step for this time is idle, and reports its last step."""
_FREEZE_SECONDS = 10.0  # a sync in progress may take seconds
_POLL_SECONDS = 0.02


class MachineTracer(Tracer):
    """Records the processes of one machine until they end or are killed.

    execute_orders: called often, between two stops; it may call the methods of this class. on_due: called once, after
    the step of `wake_after`.

    Invariant: while the machine is frozen, none of its threads runs and no system call is in progress.
    """

    def __init__(
        self,
        machine: Architecture,
        root: str,
        notes: ProgramNotes,
        stores: str,
        execute_orders: Callable[[], None],
        on_due: Callable[[], None],
    ) -> None:
        super().__init__(machine, root, notes, stores)
        self._execute_orders, self._on_due = execute_orders, on_due
        self._due_at: int | None = None
        self._steps_seen, self._last_step_at, self._next_poll = 0, monotonic(), 0.0
        self._frozen: set[int] | None = None
        """The stopped threads, once a freeze has begun."""
        self._leaving: list[tuple[TracedThread, int]] = []
        self._parents: dict[int, int] = {}
        """Threads inside vfork(2), by child. They neither run nor stop until the child calls exec or exits."""

    @property
    def _executes_plain_calls(self) -> bool:
        """No plain calls, because the machine may be cut after any step."""
        return False

    @property
    def steps(self) -> int:
        return len(self._notes.steps)

    def wake_after(self, more_steps: int) -> None:
        """Call `on_due` after this many more steps, at the next stop of a thread or when the machine is idle."""
        self._due_at = self.steps + more_steps

    def freeze(self) -> None:
        """Stop all threads. TimeoutError: a thread does not stop."""
        if self._frozen is not None:
            return
        waiting = [thread for thread, _ in self._waiting]
        self._frozen = {*self._early, *(thread.id for thread in (*waiting, *self._held))}
        for thread, look in self._waiting:
            if look == self._on_call_exit:
                self._leaving.append((thread, ptrace.result(thread.id)))
        self._waiting.clear()
        self._stop_all()

    def _stop_all(self) -> None:
        assert self._frozen is not None, "called by freeze"
        for number in [*self._threads]:
            if number not in self._frozen:
                with suppress(ThreadGone):
                    ptrace.request(_INTERRUPT, number, 0, 0)
        end = monotonic() + _FREEZE_SECONDS
        while not self._frozen.union(self._parents.values()).issuperset(self._threads):
            if monotonic() > end:
                raise TimeoutError(f"a thread of the machine has not stopped within {_FREEZE_SECONDS:g} s")
            try:
                found, status = ptrace.wait()
            except ChildProcessError:  # the machine has just ended by itself
                break
            if found and os.WIFSTOPPED(status):
                self._note_stop(found, status)
            elif found:
                self._on_thread_end(found, status)
            else:
                self._frozen.update(number for number in self._threads if _has_exited(number))
        for thread, result in self._leaving:
            self._finish_call(thread, result)
        self._leaving.clear()
        self._under_way = None

    def _note_stop(self, number: int, status: int) -> None:
        """Record the call that a thread has completed, and leave the thread stopped."""
        assert self._frozen is not None, "called while freezing"
        self._frozen.add(number)
        thread = self._threads.get(number)
        if thread is None:
            self._early.add(number)
            return
        with suppress(ThreadGone):
            if status == AFTER_CALL and thread.finish is not None:
                if self._under_way in (None, thread):
                    self._finish_call(thread, ptrace.result(number))
                else:
                    self._leaving.append((thread, ptrace.result(number)))
            elif status >> 16 in (ptrace.FORKED, ptrace.VFORKED, ptrace.CLONED):
                self._register_thread(thread, status >> 16)
            elif status >> 16 == ptrace.EXECUTED:
                self._register_exec(thread)

    def _finish_call(self, thread: TracedThread, result: int) -> None:
        finish, thread.finish = thread.finish, None
        if finish is not None:
            with suppress(ThreadGone):
                self._set_notes_context(thread, thread.call)
                finish(result)
        if thread is self._under_way:
            self._under_way = None

    def _handle_waiting_threads(self) -> None:
        if self._frozen is None:
            super()._handle_waiting_threads()

    def _add_thread(self, thread: int, group: int, process: int, memory: AddressSpace) -> None:
        if self._frozen is not None:
            self._early.discard(thread)  # the thread stays stopped
        super()._add_thread(thread, group, process, memory)

    def _register_thread(self, parent: TracedThread, event: int) -> None:
        if event == ptrace.VFORKED:
            self._parents[ptrace.event_message(parent.id)] = parent.id
        super()._register_thread(parent, event)

    def _register_exec(self, thread: TracedThread) -> None:
        self._parents.pop(thread.id, None)
        super()._register_exec(thread)

    def _on_thread_end(self, number: int, status: int) -> None:
        self._parents.pop(number, None)
        super()._on_thread_end(number, status)

    def kill(self) -> None:
        """Kill all processes, which ends `run`."""
        for group in self._groups():
            with suppress(ProcessLookupError):
                os.kill(group, signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes: SIGSTOP pauses the machine, SIGCONT resumes it."""
        for group in self._groups():
            with suppress(ProcessLookupError):
                os.kill(group, number)

    def _groups(self) -> set[int]:
        return {thread.group for thread in self._threads.values()} | self._early

    def _on_stop(self, number: int, status: int) -> None:
        if self._frozen is not None:  # killed, but not reaped yet
            self._note_stop(number, status)
            return
        now = monotonic()
        if self.steps != self._steps_seen:
            self._steps_seen, self._last_step_at = self.steps, now
        if self._due_at is not None and self.steps >= self._due_at:
            ptrace.put_back(number, status)
            self._wake()
            return
        super()._on_stop(number, status)
        if now > self._next_poll:
            self._next_poll = now + _POLL_SECONDS
            self._execute_orders()

    def _check_time_limit(self, deadline: float, seconds_max: float) -> None:
        self._execute_orders()
        is_idle = monotonic() - self._last_step_at > _IDLE_SECONDS
        if self._due_at is not None and self.steps >= self._due_at and is_idle:
            self._wake()
        if self._frozen is None:
            super()._check_time_limit(deadline, seconds_max)

    def _wake(self) -> None:
        self._due_at = None
        self._on_due()


def _has_exited(thread: int) -> bool:
    """Return whether a thread has exited. The kernel reports the first thread of a process last."""
    try:
        with open(f"/proc/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
