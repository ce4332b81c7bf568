"""Queue locks: the members of a group that can hold, and that must hold, the lock of each queue of one broker.

    certain hold   from the answer that granted a lock to its expiry after the request, or to a request to unlock;
                   none while an earlier request to unlock has no answer
    possible hold  from a request to lock to its expiry after the answer, or to the answer to a request to unlock

A broker executes a request at an unknown time between request and answer. It forgets all locks when it restarts.
Source: RocketMQ RebalanceLockManager (rebalanceLockMaxLiveTime, 60 s).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .evidence import Violation, record_tried
from .group_delivery import Queue

EXPIRY_NS = 60_000_000_000
_LATE_NS = 60_000_000_000
"""How long a broker or network may delay a request after its client has stopped waiting."""
_ENDLESS = 1 << 63


@dataclass(slots=True)
class CertainHold:
    """The time during which a client must have the lock of a queue."""

    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class QueueLocks:
    """The locks of one group since the broker's last start."""

    _certain: dict[Queue, dict[str, CertainHold]] = field(default_factory=dict)
    _possible_to_ns: dict[Queue, dict[str, int]] = field(default_factory=dict)
    _unanswered_to_ns: dict[Queue, dict[str, int]] = field(default_factory=dict)
    """As `_possible_to_ns`, for requests to lock without an answer. A later request to unlock may overtake them."""

    _unlocks: Counter[tuple[str, Queue]] = field(default_factory=Counter)
    """Client and queue -> requests to unlock without an answer, which a broker may still execute after a later lock."""

    def begin_life(self) -> None:
        """Forget all locks. The next broker process may still execute a request in flight."""
        self._certain.clear()
        self._possible_to_ns.clear()
        for unanswered in self._unanswered_to_ns.values():
            for client in [client for client, end_ns in unanswered.items() if end_ns != _ENDLESS]:
                del unanswered[client]

    def record_request(self, client: str, queues: Collection[Queue]) -> None:
        for queue in queues:
            self._unanswered_to_ns.setdefault(queue, {})[client] = _ENDLESS

    def record_no_answer(self, client: str, queues: Collection[Queue], now_ns: int) -> None:
        """Record that a client no longer waits for the answer to a request to lock, or that it has died.

        An answer from before the broker's last start counts as no answer.
        """
        for queue in queues:
            unanswered = self._unanswered_to_ns.setdefault(queue, {})
            if unanswered.get(client) == _ENDLESS:
                unanswered[client] = now_ns + _LATE_NS + EXPIRY_NS

    def check_answer(
        self,
        client: str,
        asked: Collection[Queue],
        granted: Collection[Queue],
        times_ns: tuple[int, int],
        existing: Collection[Queue],
    ) -> Iterator[Violation]:
        """LOCK: record the answer to a request to lock queues, and yield its violations.

        times_ns: request and answer, both since the broker's last start. existing: the queues of topics that
        the broker had before the request. The broker grants no lock for a missing queue.
        """
        foreign = [queue for queue in granted if queue not in asked]
        if foreign or len(set(granted)) != len(granted):
            yield _violation(f"{client} is granted other locks than it asked for", asked, granted)
        for queue in asked:
            record_tried("LOCK")
            self._unanswered_to_ns.get(queue, {}).pop(client, None)
            if queue in granted:
                yield from self._check_granted(client, queue, times_ns)
            else:
                yield from self._check_refused(client, queue, times_ns, is_there=queue in existing)

    def _check_granted(self, client: str, queue: Queue, times_ns: tuple[int, int]) -> Iterator[Violation]:
        asked_ns, answered_ns = times_ns
        certain = self._certain.setdefault(queue, {})
        for other, hold in certain.items():
            if other != client and hold.begin_ns <= asked_ns and answered_ns <= hold.end_ns:
                summary = f"{client} is granted the lock of {queue[0]}/{queue[1]}, which {other} holds"
                yield _violation(summary, f"none before {hold.end_ns} ns", f"one at {answered_ns} ns")
        own = certain.get(client)
        begin_ns = answered_ns if own is None or own.end_ns < asked_ns else own.begin_ns
        if not self._unlocks[client, queue]:
            certain[client] = CertainHold(begin_ns, asked_ns + EXPIRY_NS)
        self._possible_to_ns.setdefault(queue, {})[client] = answered_ns + EXPIRY_NS

    def _check_refused(
        self, client: str, queue: Queue, times_ns: tuple[int, int], *, is_there: bool
    ) -> Iterator[Violation]:
        asked_ns, answered_ns = times_ns
        own = self._certain.get(queue, {}).pop(client, None)
        if own is not None and answered_ns <= own.end_ns:
            summary = f"{client} loses the lock of {queue[0]}/{queue[1]} before its expiry"
            yield _violation(summary, f"granted until {own.end_ns} ns", f"refused at {answered_ns} ns")
        holders = [
            other
            for ends in (self._possible_to_ns, self._unanswered_to_ns)
            for other, end_ns in ends.get(queue, {}).items()
            if other != client and end_ns >= asked_ns
        ]
        if is_there and not holders:
            summary = f"{client} is refused the lock of {queue[0]}/{queue[1]}, which no client can hold"
            yield _violation(summary, "granted", "refused")

    def check_held(self, now_ns: int, holders: Mapping[Queue, str]) -> Iterator[Violation]:
        """LOCK: yield each lock that a client must hold and that the broker has lost.

        holders: the clients that have locks at the broker.
        """
        for queue, certain in self._certain.items():
            for client, hold in certain.items():
                if hold.begin_ns <= now_ns <= hold.end_ns:
                    record_tried("LOCK")
                    if holders.get(queue) != client:
                        summary = f"{client} has lost the lock of {queue[0]}/{queue[1]} before its expiry"
                        yield _violation(
                            summary, f"held until {hold.end_ns} ns", f"{holders.get(queue)} at {now_ns} ns"
                        )

    def record_unlock_request(self, client: str, queues: Collection[Queue]) -> None:
        for queue in queues:
            self._unlocks[client, queue] += 1
            self._certain.get(queue, {}).pop(client, None)

    def record_unlock_answer(self, client: str, queues: Collection[Queue], now_ns: int) -> None:
        for queue in queues:
            self._unlocks[client, queue] -= 1
            assert self._unlocks[client, queue] >= 0, (client, queue)
            possible = self._possible_to_ns.get(queue, {})
            if client in possible:  # another client's request may have been refused before the unlock
                possible[client] = now_ns


def _violation(summary: str, expected: object, found: object) -> Violation:
    return Violation("LOCK", summary, field="lock", expected=str(expected), found=str(found))
