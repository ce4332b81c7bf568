"""Key query: finds the messages of a topic that have a key.

The index contains only hashes, which different keys may share, so the query compares topic and key with each record.
The index contains store times in seconds. The query compares its begin time with the record, too, but not its end time.
As in RocketMQ, the result includes messages that were stored up to 999 ms after the end time.
"""

from dataclasses import dataclass, field

from ..formats.columns import NativeCore
from ..formats.index_key import keys_of
from ..log.commit_log import CommitLog
from .index_service import IndexService


@dataclass(slots=True)
class QueryMessageResult:
    """The result of a query: encoded records, oldest first."""

    records: list[bytes] = field(default_factory=list, repr=False)
    physical_offsets: list[int] = field(default_factory=list)
    index_last_update_timestamp_ms: int = 0
    """Store time of the last indexed record, or 0 if the result is empty."""
    index_last_update_physical_offset: int = 0


class KeyQuerier:
    """Finds messages by key in one log. If the optional C core stops at a record, Python repeats the query."""

    def __init__(self, commit_log: CommitLog, core: NativeCore | None = None) -> None:
        self._commit_log = commit_log
        self._core = core

    def query_message(
        self, index: IndexService, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int, limit: int
    ) -> QueryMessageResult:
        """Return the newest messages of a topic with a key, stored in [begin_ms, end_ms + 999], oldest first.

        Records up to log offset `limit` may be read. Unreadable records do not count towards max_messages. RocketMQ
        counts them, and repeats the query up to three times if all records of a result are unreadable.
        """
        core = self._core
        if core is None or not (segments := self._commit_log.queue.segments):
            return self._query_by_python(index, topic, key, max_messages, begin_ms, end_ms, limit)
        find, slots, oldest, max_num = core.find, index.table.slots, segments[0], min(max_messages, index.max_num)
        offsets: list[int] = []
        records: list[bytes] = []
        for file in reversed(index.table.files):
            found, count = len(offsets), -1
            # `find` ignores a slot that refers to an entry after `count`. So an entry that is added between the two
            # would hide all older entries of its slot.
            while file.may_hold(begin_ms, end_ms) and len(offsets) == found and count != (now := file.count.get()):
                count = now
                if not find(
                    file.view,
                    slots,
                    count,
                    file.begin_timestamp_ms,
                    topic,
                    key,
                    begin_ms,
                    end_ms,
                    max_num,
                    segments,
                    oldest.size_bytes,
                    oldest.base_offset,
                    limit,
                    offsets,
                    records,
                ):
                    return self._query_by_python(index, topic, key, max_messages, begin_ms, end_ms, limit)
            if file.begin_timestamp_ms < begin_ms or len(offsets) >= max_num:
                break
        return _result(index, offsets, records)

    def _query_by_python(
        self, index: IndexService, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int, limit: int
    ) -> QueryMessageResult:
        found: dict[int, bytes] = {}
        try:
            topic.encode()
            raw_key = key.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            return QueryMessageResult()  # no record can contain a lone surrogate

        def accept(physical_offset: int) -> bool:
            if physical_offset in found or physical_offset < 0:
                return False
            raw = self._find_record(physical_offset, topic, raw_key, begin_ms, limit)
            if raw is None:
                return False
            found[physical_offset] = raw
            return True

        offsets = index.query_offset(topic, raw_key, max_messages, begin_ms, end_ms, accept)
        assert len(offsets) == len(found), (len(offsets), len(found))
        return _result(index, offsets, [found[offset] for offset in offsets])

    def _find_record(self, physical_offset: int, topic: str, key: bytes, begin_ms: int, limit: int) -> bytes | None:
        record = self._commit_log.record_at(physical_offset, limit)
        if record is None or record.topic != topic or record.store_timestamp_ms < begin_ms:
            return None
        if key not in keys_of(record.properties.encode(errors="surrogateescape")):
            return None
        # None if retention has just removed the record.
        return self._commit_log.record_bytes(physical_offset, record.size_bytes, limit)


def _result(index: IndexService, offsets: list[int], records: list[bytes]) -> QueryMessageResult:
    if not offsets:
        return QueryMessageResult()
    if len(offsets) > 1:
        in_order = sorted(zip(offsets, records, strict=True))
        offsets, records = [offset for offset, _ in in_order], [record for _, record in in_order]
    updated_ms, updated_offset = index.last_update
    return QueryMessageResult(records, offsets, updated_ms, updated_offset)
