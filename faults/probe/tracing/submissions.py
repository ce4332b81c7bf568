"""Submissions to io_uring: executes and records the requests of a call one by one.

The program's thread submits one request at a time, and the recorder waits for its completion. So it can examine and
record each request like a system call. The kernel executes the requests, so results, partial writes and errors are
real. Requests without a recorded file are submitted unchanged and without waiting.

    order      queue order. But an unlinked sync runs before the other requests of its call,
               because the kernel executes them in parallel: the sync "may complete before the write is issued".
    links      after an error or a partial write the recorder cancels the rest of a chain (ECANCELED), like the kernel
    results    to cancel or fail a request, the recorder replaces it by a no-op, and the kernel
               completes the no-op with the wanted result (IORING_NOP_INJECT_RESULT, Linux 6.10). Before 6.10, the
               recorder changes the completion.

Source: io_uring_enter(2); io_uring/io_uring.c of Linux 6.18.
"""

import errno
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from . import ptrace
from .call_faults import CallFaults
from .call_paths import FileCall
from .notes import ProgramNotes
from .ring_operations import ENTER, FSYNC, LINK_TIMEOUT, RingOperations
from .rings import DRAIN, HARD_LINK, LINK, SKIP_SUCCESS, Completion, Queues, Ring, RingRequest
from .threads import TracedThread

SECONDS_MAX = 10.0
"""Maximum time to wait for a request to complete."""
_POLL_SECONDS = 0.0002
_GET_EVENTS = 1
_MORE = 2  # completion flag: the same request will have more completions
_TOKEN = 0x746F_726E_6C6F_6721
_POSITION = 2**64 - 1


class _SubmitError(Exception):
    """A submission has failed, so the program's call fails or ends early."""

    def __init__(self, error: int | None) -> None:
        super().__init__(error)
        self.errno = error or errno.EIO


@dataclass(slots=True)
class RequestChange:
    """The change that a fault makes to a request. seek: a function that sets the file position of a descriptor."""

    seek: Callable[[int, int], object]
    is_skipped: bool = False
    amount: int | None = None
    result: int | None = None

    def skip_call(self) -> None:
        self.is_skipped = True

    def set_argument(self, _index: int, value: int) -> None:
        """Set the length of a write. Faults change no other argument."""
        self.amount = value

    def set_result(self, result: int) -> None:
        self.result = result

    def set_position(self, fd: int, position: int) -> None:
        self.seek(fd, position)


@dataclass(slots=True)
class Submission:
    """One io_uring_enter call of a thread.

    enter: makes the thread submit a number of requests with flags; a failure raises OSError. seek: sets the file
    position of a descriptor. overflow: returns user data and result of completions that do not fit into the queue.
    """

    thread: TracedThread
    ring: Ring
    queues: Queues
    operations: RingOperations
    notes: ProgramNotes
    settle: Callable[[], None]
    faults: CallFaults | None
    enter: Callable[[int, int], int]
    seek: Callable[[int, int], object]
    overflow: Callable[[], Sequence[tuple[int, int]]]
    submitted: int = 0
    """Number of requests that the kernel has accepted."""
    error: int = 0
    """Error of the first submission that failed."""
    _positions: Iterator[int] = field(default_factory=itertools.count)

    def execute_all(self, requests: Sequence[RingRequest]) -> None:
        """Execute and record requests. Raises ThreadGone if the thread was killed."""
        self._positions = itertools.count(self.queues.submission_head)
        try:
            for chain in _in_execution_order(chains_of(requests)):
                self._execute_chain(chain)
        except _SubmitError as error:
            self.error = error.errno
        self.queues.restore_requests()

    def _execute_chain(self, chain: Sequence[RingRequest]) -> None:
        operations, thread, ring = self.operations, self.thread, self.ring
        refusals = [operations.refusal_reason(thread, ring, one) for one in chain]
        if any(refusals):
            self._refuse_chain(chain, refusals)
            return
        if not any(operations.equivalent_call(thread, ring, one) for one in chain):
            self._submit_unchanged(chain)
            return
        forget_completed(ring, self.queues)
        waits = [one for one in chain if not operations.is_prompt(thread, ring, one)]
        if chain[0].flags & DRAIN and ring.in_flight:
            self.notes.report_unseen(ENTER, "a change that waits for earlier requests of io_uring (IOSQE_IO_DRAIN)")
            self._submit_unchanged(chain)
        elif waits:
            self.notes.report_unseen(ENTER, f"a change that is linked to operation {waits[0].opcode} of io_uring")
            self._submit_unchanged(chain)
        else:
            self._execute_in_turn(chain)

    def _execute_in_turn(self, chain: Sequence[RingRequest]) -> None:
        is_cancelled = is_silent = False
        for request in chain:
            if is_cancelled:
                self._complete_without_effect(request, None if is_silent else -errno.ECANCELED)
            elif request.opcode == LINK_TIMEOUT:
                self._complete_without_effect(request, -errno.ECANCELED)  # its request ended before the timeout
            else:
                result = self._execute_request(request)
                is_ended = self.operations.ends_chain(self.thread, self.ring, request, result)
                if is_ended and not request.flags & HARD_LINK:
                    is_cancelled, is_silent = True, bool(request.flags & SKIP_SUCCESS)

    def _refuse_chain(self, chain: Sequence[RingRequest], refusals: Sequence[str]) -> None:
        """Make unknown requests fail, together with their chain."""
        for request, why in zip(chain, refusals, strict=True):
            if why:
                self.notes.refused[why] = "EINVAL"
            self._complete_without_effect(request, -errno.EINVAL if why else -errno.ECANCELED)

    def _submit_unchanged(self, chain: Sequence[RingRequest]) -> None:
        """Submit requests unchanged, without waiting for them."""
        for request in chain:
            self.queues.replace_request(next(self._positions), request)
        self.ring.in_flight.update(request.user_data for request in chain if not request.flags & SKIP_SUCCESS)
        self._submit_requests(len(chain))

    def _submit_requests(self, count: int) -> None:
        try:
            self.submitted += self._call_enter(count, 0)
        except ptrace.ThreadGone as gone:
            if gone.status is not None:  # else the thread was killed before
                self._note_kill()
            raise

    def _note_kill(self) -> None:
        self.notes.report_unseen(ENTER, "its thread was killed during the call, so its effect is unknown")

    def _call_enter(self, count: int, how: int) -> int:
        try:
            return self.enter(count, how)
        except OSError as error:
            raise _SubmitError(error.errno) from error

    # -- one request ---------------------------------------------------------------------------------

    def _execute_request(self, request: RingRequest) -> int:
        found = self.operations.equivalent_call(self.thread, self.ring, request)
        if found is None:
            return self._submit_and_wait(request) or 0
        self.settle()
        change = RequestChange(self.seek if request.other == _POSITION else lambda *_: None)
        finish = found.finish
        if self.faults is not None and found.name:
            finish = self.faults.finish_for_call(FileCall(self.thread, found.name, found.arguments), finish, change)
        if change.is_skipped:
            finish(0)
            result = change.result
            assert result is not None, "a fault that skips a request gives its result"
            self._complete_without_effect(request, None if self._is_silent(request, result) else result)
            return result
        done = self._submit_and_wait(request if change.amount is None else request._replace(length=change.amount))
        if done is None:
            return 0
        finish(done)
        if change.result is not None and change.result != done:
            self._replace_result(request, change.result)
            return change.result
        return done

    def _is_silent(self, request: RingRequest, result: int) -> bool:
        """Return whether the request asked for no completion after success, and has none."""
        return bool(request.flags & SKIP_SUCCESS) and not self.operations.ends_chain(
            self.thread, self.ring, request, result
        )

    def _submit_and_wait(self, request: RingRequest) -> int | None:
        """Submit a request and wait for its completion. Return the result, or None after SECONDS_MAX."""
        forget_completed(self.ring, self.queues)
        is_ambiguous = self.ring.in_flight[request.user_data] > 0
        user_data = _TOKEN if is_ambiguous else request.user_data
        flags = request.flags & ~(LINK | HARD_LINK | SKIP_SUCCESS)
        self.queues.replace_request(next(self._positions), request._replace(flags=flags, user_data=user_data))
        since, overflown = self.queues.completion_tail, len(self.overflow()) if self.queues.has_overflow else 0
        self._submit_requests(1)
        try:
            found = self._wait_for_completion(user_data, since, overflown)
        except ptrace.ThreadGone:
            self._note_kill()
            raise
        if found is None:
            self.notes.report_unseen(ENTER, f"a request of io_uring has not ended within {SECONDS_MAX:g} s")
            return None
        is_exact, is_removed = True, False
        if is_ambiguous and found.position >= 0:
            is_exact = self.queues.replace_completion(found.position, request.user_data, found.result, found.flags)
        if self._is_silent(request, found.result):
            is_removed = found.position >= 0 and self.queues.remove_completion(found.position)
            is_exact &= is_removed
        self.ring.in_flight[request.user_data] += not is_removed  # until `forget_completed` finds its completion
        if not is_exact:
            self._note_early_read()
        return found.result

    def _note_early_read(self) -> None:
        self.notes.report_unseen(ENTER, "a thread has read a completion that the recorder had to change")

    def _wait_for_completion(self, user_data: int, since: int, overflown: int) -> Completion | None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            for one in self.queues.completions(since):
                if one.user_data == user_data:
                    return one
            if self.queues.has_overflow:
                for place, result in self.overflow()[overflown:]:
                    if place == user_data:
                        return Completion(-1, user_data, result, 0)
            if time.monotonic() > deadline:
                return None
            self._call_enter(0, _GET_EVENTS)
            time.sleep(_POLL_SECONDS)

    def _complete_without_effect(self, request: RingRequest, result: int | None) -> None:
        """Complete a request with this result without executing it. None: without a completion."""
        self.queues.replace_request(next(self._positions), request.with_only_result(result))
        since = self.queues.completion_tail
        self._submit_requests(1)
        if result is None:
            return
        self.ring.in_flight[request.user_data] += 1
        self._call_enter(0, _GET_EVENTS)
        for one in self.queues.completions(since):
            if one.user_data == request.user_data and one.result != result:
                self._write_result(one, request, result)  # before Linux 6.10

    def _replace_result(self, request: RingRequest, result: int) -> None:
        last = [
            one for one in self.queues.completions(self.queues.completion_head) if one.user_data == request.user_data
        ]
        if last:
            self._write_result(last[-1], request, result)

    def _write_result(self, found: Completion, request: RingRequest, result: int) -> None:
        if not self.queues.replace_completion(found.position, request.user_data, result, found.flags):
            self._note_early_read()


def forget_completed(ring: Ring, queues: Queues) -> None:
    if (queues.completion_tail - ring.seen) % 2**32 > ring.completion_entries:  # the kernel has overwritten some
        ring.seen = queues.completion_tail
        ring.in_flight.clear()
    for one in queues.completions(ring.seen):
        if not one.flags & _MORE:
            ring.in_flight[one.user_data] -= 1
            if ring.in_flight[one.user_data] <= 0:
                del ring.in_flight[one.user_data]
    ring.seen = queues.completion_tail


def chains_of(requests: Iterable[RingRequest]) -> list[list[RingRequest]]:
    """Group requests into chains of linked requests and single requests."""
    chains: list[list[RingRequest]] = [[]]
    for request in requests:
        chains[-1].append(request)
        if not request.is_linked:
            chains.append([])
    return [chain for chain in chains if chain]


def _in_execution_order(chains: Sequence[list[RingRequest]]) -> Iterator[list[RingRequest]]:
    """Yield chains in execution order: single syncs first, but not across IOSQE_IO_DRAIN."""
    parallel: list[list[RingRequest]] = []
    for chain in chains:
        if chain[0].flags & DRAIN:
            yield from sorted(parallel, key=_is_no_sync)
            parallel = []
            yield chain
        else:
            parallel.append(chain)
    yield from sorted(parallel, key=_is_no_sync)


def _is_no_sync(chain: Sequence[RingRequest]) -> bool:
    return len(chain) > 1 or chain[0].opcode != FSYNC
