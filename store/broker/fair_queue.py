"""Fair queue: returns items in round robin by owner.

An owner belongs to a host. The first round robin is over hosts, so a host with many owners gets no extra turns.
Source: Nagle, "On Packet Switches with Infinite Storage", RFC 970.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain
from typing import Generic, TypeVar

_Owner = TypeVar("_Owner")
_Item = TypeVar("_Item")


class FairQueue(Generic[_Owner, _Item]):
    """Items by owner, the oldest first. Not thread-safe.

    Invariant: each owner in the queue has an item, so the queue has at least as many items as owners.
    """

    __slots__ = ("_count", "_of")

    def __init__(self) -> None:
        self._of: OrderedDict[_Owner, deque[_Item]] = OrderedDict()
        """Owner -> items, the next owner first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def first_item_of_each_owner(self) -> Iterator[_Item]:
        return (items[0] for items in self._of.values())

    def put(self, owner: _Owner, item: _Item) -> None:
        """Add an item. A new owner comes last."""
        items = self._of.get(owner)
        if items is None:
            self._of[owner] = deque((item,))
        else:
            items.append(item)
        self._count += 1

    def take(self) -> _Item:
        """Remove and return the next owner's first item. Raises KeyError if the queue is empty."""
        owner, items = self._of.popitem(last=False)
        item = items.popleft()
        if items:
            self._of[owner] = items
        self._count -= 1
        assert self._count >= len(self._of), (self._count, len(self._of))
        return item

    def drop_first(self, owner: _Owner) -> None:
        """Raises KeyError if the owner has no item."""
        items = self._of[owner]
        if len(items) > 1:
            items.popleft()
        else:
            del self._of[owner]
        self._count -= 1
        assert self._count >= len(self._of), (self._count, len(self._of))


class HostFairQueue(Generic[_Owner, _Item]):
    """Items in round robin over hosts, then over a host's owners. Not thread-safe.

    A paused host keeps its items, but gets no turn.
    """

    __slots__ = ("_count", "_of", "_paused")

    def __init__(self) -> None:
        self._of: OrderedDict[str, FairQueue[_Owner, _Item]] = OrderedDict()
        """Host -> queue, without paused hosts, the next host first."""
        self._paused: dict[str, FairQueue[_Owner, _Item]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def has_turn(self) -> bool:
        """Whether `take` can return an item."""
        return bool(self._of)

    def pause(self, host: str) -> None:
        """Skip a host until `resume`."""
        queue = self._of.pop(host, FairQueue())
        paused = self._paused
        assert host not in paused, host  # otherwise the host's items would be lost
        paused[host] = queue

    def resume(self, host: str) -> None:
        """End the pause of a host. Its next turn comes after those of all other hosts."""
        queue = self._paused.pop(host, None)
        if queue:
            turns = self._of
            assert host not in turns, host
            turns[host] = queue

    def resume_all(self) -> None:
        for host in list(self._paused):
            self.resume(host)

    def first_item_of_each_owner(self) -> Iterator[_Item]:
        queues = chain(self._of.values(), self._paused.values())
        return (item for queue in queues for item in queue.first_item_of_each_owner())

    def put(self, host: str, owner: _Owner, item: _Item) -> None:
        """Add an item. A new host or owner comes last."""
        queue = self._paused.get(host, self._of.get(host))
        if queue is None:
            queue = self._of[host] = FairQueue()
        queue.put(owner, item)
        self._count += 1

    def take(self) -> _Item:
        """Remove and return the next host's first item. Raises KeyError if all hosts are empty or paused."""
        host, queue = self._of.popitem(last=False)
        item = queue.take()
        if queue:
            self._of[host] = queue
        self._count -= 1
        assert self._count >= len(self._of), (self._count, len(self._of))
        return item

    def drop_first(self, host: str, owner: _Owner) -> None:
        """Raises KeyError if the owner has no item."""
        queue = self._paused[host] if host in self._paused else self._of[host]
        queue.drop_first(owner)
        if not queue and host in self._of:
            del self._of[host]
        self._count -= 1
        assert self._count >= len(self._of), (self._count, len(self._of))
