"""Rebalance locks: which client of a group consumes a queue in order. RocketMQ's RebalanceLockManager.

A lock lasts as long as it is asked for again within 60 s, or until it is given back. Locks are not persisted: after a
restart clients ask anew.
Source: RocketMQ RebalanceLockManager.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..formats.remoting.json_body import MessageQueue
from ..world import World

LOCK_MS_MAX = 60_000
_NS_PER_MS = 1_000_000


class _Lock(NamedTuple):
    client_id: str
    asked_ns: int


class RebalanceLockManager:
    """The locks of all groups. Any task may call it."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._lock = world.tasks.lock("rebalance locks")
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def try_lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock queues for a client, and return those that it now has."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            locks = self._groups.setdefault(group, {})
            got = []
            for queue in queues:
                held = locks.get(queue)
                if held is None or held.client_id == client_id or _is_over(held, now_ns):
                    locks[queue] = _Lock(client_id, now_ns)
                    got.append(queue)
            return got

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give back those of some queues that a client has."""
        with self._lock:
            locks = self._groups.get(group, {})
            for queue in queues:
                if queue in locks and locks[queue].client_id == client_id:
                    del locks[queue]
            self._drop_empty(group)

    def forget_expired(self) -> None:
        """Forget the locks that nobody has asked for again."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            for group, locks in list(self._groups.items()):
                for queue in [queue for queue, held in locks.items() if _is_over(held, now_ns)]:
                    del locks[queue]
                self._drop_empty(group)

    def _drop_empty(self, group: str) -> None:
        if not self._groups.get(group, True):
            del self._groups[group]


def _is_over(held: _Lock, now_ns: int) -> bool:
    return now_ns - held.asked_ns > LOCK_MS_MAX * _NS_PER_MS
