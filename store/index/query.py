"""Finds messages by key: RocketMQ's queryMessage, but nothing is returned that does not have the key.

Two keys may share a hash, and an index only knows hashes. So each record the index leads to is read, and topic and
key compared, before it counts. The index knows store times by the second: a query's beginning is compared with the
record's own, its end is not, so messages stored up to 999 ms later are among the answers, as they are in RocketMQ.
"""

from dataclasses import dataclass, field

from ..formats.index_key import keys_of
from ..log.commit_log import CommitLog
from .index_service import IndexService


@dataclass(slots=True)
class QueryMessageResult:
    """The answer to a query: records as they stand in the log, the oldest first."""

    records: list[bytes] = field(default_factory=list, repr=False)
    physical_offsets: list[int] = field(default_factory=list)
    index_last_update_timestamp_ms: int = 0
    """Store time of the last record in the index; 0 if nothing was found."""
    index_last_update_physical_offset: int = 0


class _Matches:
    """The records that a query asks for, of those the index leads it to."""

    def __init__(self, commit_log: CommitLog, limit: int, topic: str, key: bytes, begin_ms: int) -> None:
        self.found: dict[int, bytes] = {}
        """Records by log offset."""
        self._commit_log = commit_log
        self._limit = limit
        self._topic = topic
        self._key = key
        self._begin_ms = begin_ms

    def accept(self, physical_offset: int) -> bool:
        """Return whether there is a record that is asked for at a log offset, and not found before."""
        if physical_offset in self.found or physical_offset < 0:
            return False
        record = self._commit_log.record_at(physical_offset, self._limit)
        if (
            record is None
            or record.topic != self._topic
            or record.store_timestamp_ms < self._begin_ms
            or self._key not in keys_of(record.properties.encode(errors="surrogateescape"))
        ):
            return False
        raw = self._commit_log.record_bytes(physical_offset, record.size_bytes, self._limit)
        if raw is None:
            return False  # its segment was removed a moment ago
        self.found[physical_offset] = raw
        return True


def query_message(
    service: IndexService,
    commit_log: CommitLog,
    limit: int,
    topic: str,
    key: str,
    max_num: int,
    begin_ms: int,
    end_ms: int,
) -> QueryMessageResult:
    """Return the newest messages of a topic with a key, stored in [begin_ms, end_ms]; limit ends what may be shown.

    Index entries know times to the second: up to 999 ms behind end_ms are found too, as RocketMQ finds them.

    RocketMQ asks up to three times, each time for older ones, if all that a first answer led to was unreadable. Here
    that does not count in the first place.
    """
    try:
        raw_key = key.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return QueryMessageResult()  # half of a character, which no record can hold
    matches = _Matches(commit_log, limit, topic, raw_key, begin_ms)
    offsets = sorted(service.query_offset(topic, raw_key, max_num, begin_ms, end_ms, matches.accept))
    if not offsets:
        return QueryMessageResult()
    return QueryMessageResult([matches.found[offset] for offset in offsets], offsets, *service.last_update)
