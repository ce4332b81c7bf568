"""Both layouts behind one face: put to a topic, pull from a topic."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ....store.formats.consume_queue import ENTRY_BYTES
from ....store.log.segment_queue import SegmentQueue
from ....store.message import Message, PutMessageStatus
from ....store.message_store import MessageStore
from .partitioned_log import PartitionedLog

PULLED_MOST = 32
"""Records of one pull."""


class TopicLayout(Protocol):
    """A store of either layout, with the messages that it is given."""

    def put(self, topic: int) -> None:
        """Put a topic's message. RuntimeError or OSError: it is not stored as promised."""

    def pull(self, topic: int, offset: int) -> list[bytes]:
        """Return the next records of a topic from an offset on, at most PULLED_MOST."""

    def shutdown(self) -> None:
        """End."""


Touched = Callable[[str, int, int], None]
"""Told which bytes [start, end) of a file, named by its path, a pull has looked at."""


class SharedLog:
    """The message store: one log, and a consume queue for each topic."""

    def __init__(
        self, store: MessageStore, messages: Sequence[Message], touched: Touched | None = None
    ) -> None:
        self.store = store
        self._messages = messages
        self._touched = touched

    def put(self, topic: int) -> None:
        """Put a topic's message."""
        status = self.store.put_message(self._messages[topic]).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    def pull(self, topic: int, offset: int) -> list[bytes]:
        """Return the next records of a topic."""
        name = self._messages[topic].topic
        result = self.store.get_message(name, 0, offset, PULLED_MOST)
        if self._touched is not None and result.records:
            end_offset = offset + len(result.records)
            self._touch(
                self.store.queues.find_or_create(name, 0).queue,
                offset * ENTRY_BYTES,
                end_offset * ENTRY_BYTES,
            )
            for at, record in zip(result.physical_offsets, result.records, strict=True):
                self._touch(self.store.log, at, at + len(record))
        return result.records

    def _touch(self, row: SegmentQueue, start: int, end: int) -> None:
        """Tell of bytes of a row of files; a pull is of one file."""
        segment = row.find(start)
        assert segment is not None
        assert self._touched is not None
        self._touched(segment.file.path, start - segment.base_offset, end - segment.base_offset)

    def shutdown(self) -> None:
        """Stop the store."""
        self.store.shutdown()


class Partitions:
    """The partitioned log: one log for each topic."""

    def __init__(self, log: PartitionedLog, messages: Sequence[Message]) -> None:
        self.log = log
        self._messages = messages

    def put(self, topic: int) -> None:
        """Put a topic's message."""
        self.log.put(self._messages[topic])

    def pull(self, topic: int, offset: int) -> list[bytes]:
        """Return the next records of a topic."""
        return self.log.read(self._messages[topic].topic, 0, offset, PULLED_MOST)

    def shutdown(self) -> None:
        """Stop it."""
        self.log.shutdown()
