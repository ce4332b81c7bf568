"""Light queue places: which a record has, read off its properties by the harness and not by the store's code.

INNER_MULTI_DISPATCH names queues, INNER_MULTI_QUEUE_OFFSET holds a place in each, both separated by commas. Of a name
that comes twice, or is that of the record's own queue, no second place is meant.
"""

from collections.abc import Iterable
from typing import Protocol

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .ledger import LIGHT_OFFSETS, TRANSACTION_TOPICS
from .reader import properties_of

LIGHT_PREFIX = "%LMQ%"
LIGHT_MARK = f"{LIGHT_OFFSETS}\1".encode()
"""In the properties of every record that has a place in a light queue."""
_WAITING_TOPICS = (SCHEDULE_TOPIC, *TRANSACTION_TOPICS)
_NOWHERE: dict[tuple[str, int], int] = {}

QueueKey = tuple[str, int]
"""Topic and queue id."""


class RecordPlacement(Protocol):
    """What has to be known of a record; whoever has read it."""

    @property
    def topic(self) -> str:
        """Return the topic it is in."""

    @property
    def queue_id(self) -> int:
        """Return the queue id."""

    @property
    def queue_offset(self) -> int:
        """Return its place in that queue."""

    @property
    def properties(self) -> bytes:
        """Return its properties as they stand in the file."""


def light_queue(name: str, queue_id: int) -> QueueKey:
    """Return the queue that a message of a queue id means by a name."""
    return name, 0 if name.startswith(LIGHT_PREFIX) else queue_id


def light_places(record: RecordPlacement) -> dict[QueueKey, int]:
    """Return the queues beside its own that a record has a place in, and its queue offset there.

    It has none if one of its offsets is no number: a disk may have changed them.
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
    """Return the queues that a record was to enter and has no place in; one that waits is to enter none yet."""
    if record.topic in _WAITING_TOPICS:
        return []
    places = light_places(record)
    wanted = [light_queue(name, record.queue_id) for name in names]
    own = (record.topic, record.queue_id)
    return [key for key in wanted if key != own and key not in places]
