"""Puts into a store over threads and maps, dispatch running beside them."""

from collections.abc import Callable
from typing import TypeVar

from ...store.config import FlushDiskType
from ...store.message import Message, MessageBatch, PutMessageResult, PutMessageStatus
from .closed_loop import ClosedLoop
from .figure import Sample
from .messages import BATCH_MESSAGES, QUEUES, batch, message
from .workplace import Workplace

_Put = TypeVar("_Put", Message, MessageBatch)


def puts(place: Workplace, body_bytes: int, flush: FlushDiskType, producers: int) -> Sample:
    """Measure single puts per second, all producers together."""
    with place.store(flush_disk_type=flush) as store:
        calls = [_put(store.put_message, message(body_bytes, number % QUEUES)) for number in range(producers)]
        return ClosedLoop(calls, place.settings.seconds).run()


def batch_puts(place: Workplace, body_bytes: int, flush: FlushDiskType) -> Sample:
    """Measure messages per second that one producer puts in batches, encoded before; latencies are a batch's."""
    with place.store(flush_disk_type=flush) as store:
        call = _put(store.put_messages, batch(body_bytes))
        return ClosedLoop([call], place.settings.seconds).run(BATCH_MESSAGES)


def _put(put: Callable[[_Put], PutMessageResult], what: _Put) -> Callable[[], None]:
    def call() -> None:
        status = put(what).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    return call
