"""Pull times: a held pull is answered when a message arrives, and without a message when its time is over.

After the answer to the producer, dispatch, the response and the network take a bounded time. A pull must receive the
message within that time, counted from the end of the last pause, slow operation or late network delivery. RocketMQ
checks all held pulls every 5 s, so a missed wake-up costs up to 5 s. Pulls at a slave are not checked: a slave does not
wake held pulls, in RocketMQ and here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ..claims.plan import Plan
from .evidence import Violation, record_tried
from .group_delivery import Queue
from .invariants import live

_FEW_PULLS = 10
_ROUND_TRIPS = 6
"""Round trips between an answered send and its receipt by a consumer, per window of a connection."""
HEADERS_BYTES = 500
"""The maximum size of a request or response without its messages."""


class _AnsweredMessage(NamedTuple):
    queue_offset: int
    properties: bytes
    at_ns: int


class PullTimes:
    """When the put of each readable message was answered, since the broker's last start."""

    def __init__(self, plan: Plan | None = None, held_up_until_ns: Callable[[str], int] = lambda host: 0) -> None:
        """plan: None for no check. held_up_until_ns: returns when the last delay of a host ends."""
        self._plan = None if plan is None or _may_fail(plan) else plan
        self._held_up_until_ns = held_up_until_ns
        self._answered: dict[Queue, list[_AnsweredMessage]] = {}
        self._is_stopping = False
        self._serves_since_ns = 0

    def begin_life(self) -> None:
        self._answered.clear()
        self._is_stopping = False

    def note_serving(self, now_ns: int) -> None:
        """Record that the broker begins to serve. Requests wait for this after it has begun to listen."""
        self._serves_since_ns = now_ns

    def note_stopping(self) -> None:
        """Record that the broker begins to stop. It answers all held pulls, and holds none."""
        self._is_stopping = True

    def record_answered_put(self, queue: Queue, queue_offset: int, properties: bytes, now_ns: int) -> None:
        self._answered.setdefault(queue, []).append(_AnsweredMessage(queue_offset, properties, now_ns))

    def check_pull_time(
        self,
        queue: Queue,
        position: int,
        host: str,
        *,
        wants: Callable[[bytes], bool],
        sent_ns: int,
        now_ns: int,
        body_bytes: int = 0,
    ) -> Iterator[Violation]:
        """LIVE: yield a pull that was answered late. The broker must not have restarted since the request.

        wants: returns whether a message with these properties matches.
        """
        if self._plan is None:
            return
        there_ns = [
            each.at_ns
            for each in self._answered.get(queue, ())
            if each.queue_offset >= position and wants(each.properties)
        ]
        if not there_ns:
            return
        late_ms = (now_ns - max(self._received_ns(host, sent_ns), min(there_ns))) // 1_000_000
        summary = f"a pull of {queue[0]}/{queue[1]} waits although there is a message for it"
        yield from live.check_time(summary, late_ms, late_ms_max(self._plan, body_bytes))

    def check_move_time(self, queue: Queue, host: str, *, sent_ns: int, now_ns: int) -> Iterator[Violation]:
        """LIVE: yield a late answer to a pull of an offset before the first entry of a queue or after its end.

        An operator may delete the queue of a held pull, so that its offset is moved later.
        """
        if self._plan is not None and not self._plan.broker.operators:
            late_ms = (now_ns - self._received_ns(host, sent_ns)) // 1_000_000
            summary = f"a pull of {queue[0]}/{queue[1]} waits although its offset is moved"
            yield from live.check_time(summary, late_ms, late_ms_max(self._plan, 0))

    def check_hold_time(
        self,
        queue: Queue,
        host: str,
        suspend_ms: int,
        *,
        began_ns: int,
        sent_ns: int,
        now_ns: int,
        may_be_early: bool = False,
    ) -> Iterator[Violation]:
        """LIVE: yield a pull that was answered without a message earlier or later than `suspend_ms` requires.

        began_ns, sent_ns: before and after the client sent the request. The broker must not have restarted since.
        may_be_early: whether there are messages after the requested offset, so that the pull need not be held.
        """
        plan, held_ms = self._plan, self._hold_ms(suspend_ms)
        if plan is None or held_ms is None:
            return
        record_tried("LIVE")
        limit_ms = late_ms_max(plan, 0)
        late_ms = (now_ns - self._received_ns(host, sent_ns)) // 1_000_000 - held_ms
        is_early = not may_be_early and now_ns < began_ns + held_ms * 1_000_000
        if is_early or late_ms > limit_ms:
            summary = f"a pull of {queue[0]}/{queue[1]} without a message is held for a wrong time"
            expected = f"{held_ms} ms, at most {limit_ms} ms more"
            found = f"{(now_ns - began_ns) // 1_000_000} ms"
            yield Violation("LIVE", summary, "", -1, "answer time", expected, found)

    def _received_ns(self, host: str, sent_ns: int) -> int:
        """Return when the broker can have received a request at the latest, without the network's usual latency."""
        return max(sent_ns, self._held_up_until_ns(host), self._serves_since_ns)

    def _hold_ms(self, suspend_ms: int) -> int | None:
        """Return how long the broker holds a pull without a message, None if it may answer earlier."""
        plan = self._plan
        if plan is None or self._is_stopping:
            return None
        settings = plan.broker_settings
        if min(settings.held_pulls_max, settings.held_pulls_of_client_max) <= _FEW_PULLS:
            return None  # a broker that may hold no further pull answers at once
        return suspend_ms if plan.settings.long_polling_enable else settings.short_polling_time_ms

    def last_look_ns(self, suspend_ms: int, *, began_ns: int, now_ns: int) -> int:
        """Return a time before the broker's last look at the queue of a pull that is answered without a message."""
        held_ms = self._hold_ms(suspend_ms)
        end_ns = began_ns + (held_ms or 0) * 1_000_000
        return end_ns if end_ns <= now_ns else began_ns


def _may_fail(plan: Plan) -> bool:
    slow = replace(plan.faults, slow_sync_chance=0.0, slow_io_chance=0.0, stall_chance=0.0)
    return live.may_slow_operations(replace(plan, faults=slow)) or plan.capacity_bytes > 0


def late_ms_max(plan: Plan, body_bytes: int) -> int:
    """Return the time limit for a pull for which there is a message. body_bytes: the size of the answer's body.

    Answers to pulls of all other queues may be sent first, and each may fill its connection's buffers a few times. Late
    timers delay each delivery of the network.
    """
    pulls = plan.topics * plan.queues_per_topic
    windows = 1 + pulls * (HEADERS_BYTES + body_bytes) // plan.broker.buffer_bytes
    committed_ms = live.commit_ms_max(plan) if plan.may_use_transient_pool else 0
    polled_ms = 0 if plan.settings.long_polling_enable else plan.broker_settings.short_polling_time_ms
    latency_ms, slack_ms = -(-plan.network.latency_us_max // 1_000), plan.disturbances.timer_slack_us // 1_000
    network_ms = _ROUND_TRIPS * windows * latency_ms + (_ROUND_TRIPS + windows) * slack_ms
    return live.start_ms_max(plan) + committed_ms + polled_ms + network_ms
