"""Light queue places: parsed from the properties of a record.

The store's code is not used. INNER_MULTI_DISPATCH names queues and INNER_MULTI_QUEUE_OFFSET holds a place in each, both
separated by commas. A repeated name, or the record's own queue, gives no second place.
"""

from collections.abc import Iterable
from typing import Protocol

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .ledger import LIGHT_OFFSETS, TRANSACTION_TOPICS
from .reader import properties_of

LIGHT_PREFIX = "%LMQ%"
LIGHT_MARK = f"{LIGHT_OFFSETS}\1".encode()
"""Part of the properties of every record that has a place in a light queue."""
_WAITING_TOPICS = (SCHEDULE_TOPIC, *TRANSACTION_TOPICS)
_NOWHERE: dict[tuple[str, int], int] = {}

QueueKey = tuple[str, int]


class RecordPlacement(Protocol):
    """The fields of a record that give its places."""

    @property
    def topic(self) -> str:
        """Return the record's topic."""

    @property
    def queue_id(self) -> int:
        """Return the record's queue id."""

    @property
    def queue_offset(self) -> int:
        """Return its place in that queue."""

    @property
    def properties(self) -> bytes:
        """Return its properties as stored in the file."""


def light_queue(name: str, queue_id: int) -> QueueKey:
    """Return the queue that a message with a queue id means by a name."""
    return name, 0 if name.startswith(LIGHT_PREFIX) else queue_id


def light_places(record: RecordPlacement) -> dict[QueueKey, int]:
    """Return the other queues that contain a record, with its queue offset in each.

    There are none if an offset is not a number, since a disk may have changed it.
    """
    if LIGHT_MARK not in record.properties:
        return _NOWHERE
    found = properties_of(record.properties)
    names, offsets = found.get("INNER_MULTI_DISPATCH", "").split(","), found.get(LIGHT_OFFSETS, "").split(",")
    if not all(offset.isascii() and offset.isdecimal() for offset in offsets):
        return _NOWHERE
    places = {(record.topic, record.queue_id): record.queue_offset}
    for name, offset in zip(names, offsets, strict=False):
        places.setdefault(light_queue(name, record.queue_id), int(offset))
    _, *others = places.items()
    return dict(others)


def missing_places(record: RecordPlacement, names: Iterable[str]) -> list[QueueKey]:
    """Return the named queues in which a record has no place. A record that waits enters its light queues later."""
    if record.topic in _WAITING_TOPICS:
        return []
    places = light_places(record)
    wanted = [light_queue(name, record.queue_id) for name in names]
    own = (record.topic, record.queue_id)
    return [key for key in wanted if key != own and key not in places]
