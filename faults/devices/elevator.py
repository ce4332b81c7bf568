"""Elevator: a device queue that sorts and merges waiting requests.

The elevator issues writes in ascending block order from the head's position, then from the lowest block, and merges
adjacent ones. Tasks wait for reads, so a batch of reads precedes writes, at most twice in a row. mq-deadline does the
same (Linux, Documentation/block/deadline-iosched.rst: sorted batches of fifo_batch = 16, writes_starved = 2). The model
omits deadlines, because batches are short, and each round issues every waiting request. Without sorting, requests are
issued in order of arrival, as by the scheduler "none" (Documentation/block/switching-sched.rst).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from ...sim.machine import Machine, SimTask, WaitGate, WaitReason
from .storage import BlockDevice, Run

_RUNS_AT_ONCE = 16  # fifo_batch
_BLOCKS_AT_ONCE = 1024  # 4 MiB
_READS_IN_A_ROW = 2  # writes_starved
_IDLE = WaitReason("a request")
_SERVING = WaitReason("the device")
_COMPLETION = WaitReason("device")


@dataclass(slots=True, eq=False)
class IoRequest:
    """Block runs of one task's request. Invariant: `done_ns`, the end time of the last run, is set when `queued` is
    0.
    """

    begun_ns: int
    queued: int
    waiters: WaitGate
    done_ns: int | None = None


Queued = tuple[int, int, int, IoRequest]
"""A queued block run: first block, tie-breaking number, number of blocks, request."""


class Elevator:
    """The queue of a device, with the task that serves it."""

    def __init__(self, machine: Machine, device: BlockDevice, *, is_sorted: bool = True) -> None:
        self._kernel = machine.kernel
        self._is_sorted = is_sorted
        self._device = device
        self._reads: list[Queued] = []
        self._writes: list[Queued] = []
        self._flushes: list[IoRequest] = []
        self._numbers = count()
        self._head = 0
        self._reads_in_a_row = 0
        self._idle: SimTask | None = None
        self.busy_ns = 0
        self.commands = 0
        self.blocks_read = 0
        self.blocks_written = 0
        machine.tasks.spawn("elevator", self._serve_queue)

    def read(self, runs: Sequence[Run]) -> IoRequest:
        return self._enqueue(self._reads, runs)

    def write(self, runs: Sequence[Run]) -> IoRequest:
        return self._enqueue(self._writes, runs)

    def flush(self) -> IoRequest:
        """Queue a flush of the device's cache, which covers finished writes."""
        request = self._new_request(1)
        self._flushes.append(request)
        self._wake_idle_task()
        return request

    def wait(self, request: IoRequest) -> None:
        while request.done_ns is None:
            request.waiters.wait(None)
        if request.done_ns > self._kernel.now_ns:
            self._kernel.park(_COMPLETION, request.done_ns)

    def _enqueue(self, queue: list[Queued], runs: Sequence[Run]) -> IoRequest:
        request = self._new_request(len(runs))
        for first, blocks in runs:
            queued = (first, next(self._numbers), blocks, request)
            if self._is_sorted:
                insort(queue, queued)
            else:
                queue.append(queued)
        if runs:
            self._wake_idle_task()
        else:
            request.done_ns = self._kernel.now_ns
        return request

    def _new_request(self, queued: int) -> IoRequest:
        return IoRequest(self._kernel.now_ns, queued, WaitGate(self._kernel, "device"))

    def _wake_idle_task(self) -> None:
        if self._idle is not None:
            task, self._idle = self._idle, None
            self._kernel.wake(task)

    def _serve_queue(self) -> None:
        kernel = self._kernel
        while True:
            begun_ns = kernel.now_ns
            done_ns = self._issue_next_batch(begun_ns)
            if done_ns is None:
                self._idle = kernel.current
                kernel.park(_IDLE, None)
            elif done_ns > begun_ns:
                self.busy_ns += done_ns - begun_ns
                kernel.park(_SERVING, done_ns)

    def _issue_next_batch(self, now_ns: int) -> int | None:
        """Issue the next requests, and return their end time; None: the queue is empty."""
        if self._is_sorted:
            is_starved = self._reads_in_a_row >= _READS_IN_A_ROW and bool(self._writes or self._flushes)
        else:
            is_starved = bool(self._reads and self._writes) and self._writes[0][1] < self._reads[0][1]
        if self._reads and not is_starved:
            self._reads_in_a_row += 1
            return self._issue_reads()
        self._reads_in_a_row = 0
        if self._flushes:
            return self._issue_flush(now_ns)
        return self._issue_writes() if self._writes else None

    def _issue_flush(self, now_ns: int) -> int:
        done_ns = self._device.flush(now_ns)
        requests, self._flushes = self._flushes, []
        for request in requests:
            _finish_run(request, done_ns)
        return done_ns

    def _issue_reads(self) -> int:
        done_ns = 0
        for first, _, blocks, request in self._dequeue_batch(self._reads):
            # A busy drive accepts commands, so the read began when the task queued it.
            done_ns = self._device.read(request.begun_ns, (first, blocks))
            self.commands += 1
            self.blocks_read += blocks
            _finish_run(request, done_ns)
        return done_ns

    def _issue_writes(self) -> int:
        taken = self._dequeue_batch(self._writes)
        runs = merge_runs([(first, blocks) for first, _, blocks, _ in taken])
        begun_ns = max(request.begun_ns for *_, request in taken)
        done_ns = self._device.write(begun_ns, runs)
        self.commands += len(runs)
        self.blocks_written += sum(blocks for _, blocks in runs)
        for *_, request in taken:
            _finish_run(request, done_ns)
        return done_ns

    def _dequeue_batch(self, queue: list[Queued]) -> list[Queued]:
        """Remove the next runs in the scheduler's order, within the limits of commands and blocks."""
        at = bisect_left(queue, (self._head,)) if self._is_sorted else 0
        ordered = queue[at:] + queue[:at]
        commands, first, end = 0, 0, -1
        taken = blocks = 0
        for queued in ordered:
            if not first <= queued[0] <= end:
                commands += 1
                first = queued[0]
            if commands > _RUNS_AT_ONCE or blocks >= _BLOCKS_AT_ONCE:
                break
            end = queued[0] + queued[2]
            blocks += queued[2]
            taken += 1
        assert taken > 0, "a queue that is not empty gives at least one run"
        wrapped = max(0, at + taken - len(queue))  # runs before the head
        del queue[at : at + taken]
        del queue[:wrapped]
        self._head = end
        return ordered[:taken]


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """Merge adjacent and overlapping runs, which are sorted but may wrap around once."""
    found: list[Run] = []
    for first, blocks in runs:
        if found and found[-1][0] <= first <= sum(found[-1]):
            before = found.pop()
            found.append((before[0], max(sum(before), first + blocks) - before[0]))
        else:
            found.append((first, blocks))
    return found


def _finish_run(request: IoRequest, done_ns: int) -> None:
    """End one block run of a request. After the last run, wake the tasks that wait for the request."""
    assert request.queued > 0, "a run of the request ended twice"
    assert request.begun_ns <= done_ns, (request.begun_ns, done_ns)
    request.queued -= 1
    if not request.queued:
        request.done_ns = done_ns
        request.waiters.open()
