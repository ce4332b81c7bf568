"""Light queue offsets: parsed from the properties of a record, without the store's code.

INNER_MULTI_DISPATCH names queues, and INNER_MULTI_QUEUE_OFFSET has a queue offset for each, both separated by commas.
Repeated names and the record's own queue are ignored.
"""

from collections.abc import Iterable
from typing import Protocol

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .ledger import LIGHT_OFFSETS, TRANSACTION_TOPICS
from .reader import properties_of

LIGHT_PREFIX = "%LMQ%"
LIGHT_MARK = f"{LIGHT_OFFSETS}\1".encode()
"""Bytes in the properties of every record that is in a light queue."""
_WAITING_TOPICS = (SCHEDULE_TOPIC, *TRANSACTION_TOPICS)
_NOWHERE: dict[tuple[str, int], int] = {}

QueueKey = tuple[str, int]


class RecordPlacement(Protocol):
    """The fields that determine a record's queues."""

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def queue_offset(self) -> int: ...

    @property
    def properties(self) -> bytes: ...


def light_queue(name: str, queue_id: int) -> QueueKey:
    return name, 0 if name.startswith(LIGHT_PREFIX) else queue_id


def light_places(record: RecordPlacement) -> dict[QueueKey, int]:
    """Return light queue -> offset for each light queue that contains a record.

    If a disk changed an offset so that it is not a number, the result is empty.
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


def light_queues_without_offset(record: RecordPlacement, names: Iterable[str]) -> list[QueueKey]:
    """Return light queues for which a record has no offset. Delayed records need none."""
    if record.topic in _WAITING_TOPICS:
        return []
    places = light_places(record)
    wanted = [light_queue(name, record.queue_id) for name in names]
    own = (record.topic, record.queue_id)
    return [key for key in wanted if key != own and key not in places]
