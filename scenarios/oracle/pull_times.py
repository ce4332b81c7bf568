"""Pull times: a pull that may wait is answered as soon as there is a message for it, and not when its wait is over.

A message whose producer was answered can be read from then on, but for the time that dispatch, an answer and the way
back take. So a pull that asks for it, or asked before, is answered within that, counted from when the last pause, slow
operation or late delivery was over. RocketMQ looks at all held pulls every 5 s: that is what a missed wake-up costs.
A slave wakes nobody, in RocketMQ as here, so that of its pulls nothing is claimed that the end of their wait is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ..claims.plan import Plan
from .evidence import Violation, tried
from .group_delivery import Queue
from .invariants import live

_COMMIT_MS = 400
"""How long a record may be in a buffer before readers can have it: two intervals of committing."""
_ROUND_TRIPS = 6
"""Between an answered send and what a consumer takes in, of what fits in the buffers of a connection."""
_HEADERS_BYTES = 500
"""More than a response has beside its messages."""


class _Answered(NamedTuple):
    queue_offset: int
    at_ns: int


class PullTimes:
    """What consumers could have been given in the present life of the broker, and since when."""

    def __init__(self, plan: Plan | None = None, held_up_until_ns: Callable[[str], int] = lambda host: 0) -> None:
        """plan: the run's; without one nothing is late. held_up_until_ns: when all was well again for a host."""
        self._plan = None if plan is None or _may_fail(plan) else plan
        self._held_up_until_ns = held_up_until_ns
        self._answered: dict[Queue, list[_Answered]] = {}

    def begin_life(self) -> None:
        """Forget what could be had: the broker has ended."""
        self._answered.clear()

    def note(self, queue: Queue, queue_offset: int, now_ns: int) -> None:
        """Note that a message which consumers want was answered."""
        self._answered.setdefault(queue, []).append(_Answered(queue_offset, now_ns))

    def check(
        self, queue: Queue, position: int, host: str, *, sent_ns: int, now_ns: int, body_bytes: int = 0
    ) -> Iterator[Violation]:
        """Yield a client's pull from a position on, sent and answered in the present life, whose answer came late."""
        if self._plan is None:
            return
        there_ns = [each.at_ns for each in self._answered.get(queue, ()) if each.queue_offset >= position]
        if not there_ns:
            return
        tried("LIVE")
        late_ms = (now_ns - max(sent_ns, min(there_ns), self._held_up_until_ns(host))) // 1_000_000
        limit_ms = late_ms_max(self._plan, body_bytes)
        if late_ms > limit_ms:
            summary = f"a pull of {queue[0]}/{queue[1]} waits although there is a message for it"
            expected, found = f"<= {limit_ms} ms", f"{late_ms} ms"
            yield Violation("LIVE", summary, "", -1, "answer time", expected, found)


def _may_fail(plan: Plan) -> bool:
    """Return whether the disk may fail, after which dispatch rests before it tries again, or be full."""
    slow = replace(plan.faults, slow_sync_chance=0.0, slow_io_chance=0.0, stall_chance=0.0)
    return live.may_slow(replace(plan, faults=slow)) or plan.capacity_bytes > 0


def late_ms_max(plan: Plan, body_bytes: int) -> int:
    """Return how long a pull may take when there is a message for it, in ms; body_bytes: of its answer.

    Before that may go the answers to pulls of all other queues, and each may need the buffers of its connection filled
    and emptied a few times.
    """
    pulls = plan.topics * plan.queues_per_topic
    windows = 1 + pulls * (_HEADERS_BYTES + body_bytes) // plan.broker.buffer_bytes
    committed_ms = _COMMIT_MS if plan.memory.transient_pool else 0
    latency_ms = -(-plan.network.latency_us_max // 1_000)
    return live.start_ms_max(plan) + committed_ms + _ROUND_TRIPS * windows * latency_ms
