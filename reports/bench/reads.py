"""Pulls and queries in a store that was filled and stopped before: the page cache holds all of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...store.message import GetMessageStatus
from ...store.message_store import MessageStore
from ...store.real.world import overlay_world
from .closed_loop import ClosedLoop
from .figure import Sample
from .messages import BATCH_MESSAGES, TOPIC, key
from .workplace import Workplace

_KEY_STRIDE = 7919  # a prime: queries hop through the log
_LONG_AFTER_MS = 1 << 60


def pulls(place: Workplace, body_bytes: int) -> Sample:
    """Measure messages per second that one consumer pulls in batches of 32, from end to end and again."""
    with _opened(place, place.filled(place.settings.small_log_bytes, body_bytes)) as store:
        offset = 0

        def pull() -> None:
            nonlocal offset
            answer = store.get_message(TOPIC, 0, offset, BATCH_MESSAGES)
            if answer.status is GetMessageStatus.OFFSET_OVERFLOW_ONE:
                offset = 0
                answer = store.get_message(TOPIC, 0, offset, BATCH_MESSAGES)
            if len(answer.records) != BATCH_MESSAGES:
                raise RuntimeError(f"a pull was answered {answer.status.name}, {len(answer.records)} records")
            offset = answer.next_begin_offset

        return ClosedLoop([pull], place.settings.seconds).run(BATCH_MESSAGES)


def queries(place: Workplace) -> Sample:
    """Measure queries per second, each for a key that one message has."""
    with _opened(place, place.filled(place.settings.small_log_bytes, keyed=True)) as store:
        count = sum(queue.max_offset for queue in store.queues.all())
        number = 0

        def query() -> None:
            nonlocal number
            answer = store.query_message(TOPIC, key(number), BATCH_MESSAGES, 0, _LONG_AFTER_MS)
            if len(answer.records) != 1:
                raise RuntimeError(f"a query for key {number} found {len(answer.records)} records")
            number = (number + _KEY_STRIDE) % count

        return ClosedLoop([query], place.settings.seconds).run()


@contextmanager
def _opened(place: Workplace, directory: str) -> Iterator[MessageStore]:
    """Yield the store in a directory, loaded but without services, over maps that write nothing back."""
    store = MessageStore(overlay_world(), place.config(directory))
    store.load()
    try:
        yield store
    finally:
        store.close()
