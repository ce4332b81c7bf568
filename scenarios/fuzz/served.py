"""Served content: what a recovered store serves, held against the files that it was given."""

from collections.abc import Iterator, Mapping

from ...store.formats.message import MessageRecord
from ...store.log.recovery import RecoveryReport
from ...store.message_store import MessageStore
from ..oracle.reader import is_blank, whole_at
from .directory_changes import base_of
from .material import BORN_MS, KEYS
from .stores import LOG_FILE_BYTES
from .target import TargetViolation

_PULLED_AT_ONCE = 7
_NEVER_MS = 1 << 62
_LOG = "commitlog/"


class GivenLog:
    """The files of the log as the store found them, and what its recovery said of them.

    Damage in what a clean exit or the checkpoint vouches for is told and passed over, or, where recovery trusts the
    checkpoint, not looked for, be it in the log or in queues: what is served from there need only lie there.
    """

    def __init__(self, entries: Mapping[str, bytes | None], report: RecoveryReport) -> None:
        files = {path: content for path, content in entries.items() if path.startswith(_LOG)}
        self._files = {base_of(path): content for path, content in files.items() if content is not None}
        self._is_whole_scanned = report.start_offset <= min(self._files, default=0)
        self._told = {base_of(finding.file) for finding in report.findings if f"/{_LOG}" in finding.file}

    def check(self, raw: bytes, physical_offset: int, topic: str) -> None:
        """Judge a record that was served for a topic from a log offset. Broken: it does not lie there whole."""
        base = physical_offset - physical_offset % LOG_FILE_BYTES
        content, at = self._files.get(base, b""), physical_offset % LOG_FILE_BYTES
        if content[at : at + len(raw)] != raw:
            raise TargetViolation("served-unknown", f"what lies at {physical_offset}", raw.hex()[:300])
        if base in self._told or not self._is_whole_scanned:
            return
        whole = whole_at(content, at, len(content), physical_offset)
        if whole is None or whole.record.size_bytes != len(raw):
            raise TargetViolation("served-unwhole", f"a whole record at {physical_offset}", raw.hex()[:300])
        if whole.record.topic != topic:
            raise TargetViolation("served-foreign", topic, whole.record.topic)

    def check_looked_up(self, physical_offset: int, found: MessageRecord | None) -> None:
        """Broken: a record that lies whole at a log offset is not what is found there."""
        base = physical_offset - physical_offset % LOG_FILE_BYTES
        content, at = self._files[base], physical_offset - base
        whole = whole_at(content, at, len(content), physical_offset)
        if whole is not None and (found is None or found.body != whole.body):
            raise TargetViolation("look-up", f"the record at {physical_offset}", found)

    def whole_end(self) -> int:
        """Return the log offset behind the last of the records that are whole from the beginning on, 0 for none."""
        base, end = min(self._files, default=0), 0
        while (content := self._files.get(base)) is not None and len(content) == LOG_FILE_BYTES:
            at = 0
            while (whole := whole_at(content, at, len(content), base + at)) is not None:
                at += whole.record.size_bytes
                end = base + at
            if at < LOG_FILE_BYTES and not is_blank(content, at, LOG_FILE_BYTES):
                break
            base += LOG_FILE_BYTES
        return end


def check_served(store: MessageStore, given: GivenLog) -> int:
    """Pull, look up and query all there is; return how many messages were pulled. Broken: one of them is none."""
    pulled = 0
    for queue in store.queues.all():
        topic, queue_id = queue.topic, queue.queue_id
        for raw, physical_offset in _pulled(store, topic, queue_id):
            given.check(raw, physical_offset, topic)
            given.check_looked_up(physical_offset, store.look_message_by_offset(physical_offset))
            pulled += 1
        for key in KEYS[:1] + KEYS[3:]:
            answer = store.query_message(topic, key, 32, 0, _NEVER_MS)
            for raw, physical_offset in zip(answer.records, answer.physical_offsets, strict=True):
                given.check(raw, physical_offset, topic)
        at_time = store.get_offset_in_queue_by_time(topic, queue_id, BORN_MS + 1000)
        if not 0 <= at_time <= max(queue.max_offset, 0):
            raise TargetViolation("offset-by-time", f"0 to {queue.max_offset}", at_time)
    return pulled


def _pulled(store: MessageStore, topic: str, queue_id: int) -> Iterator[tuple[bytes, int]]:
    """Yield the messages of a queue and their log offsets, one pull after the other."""
    offset = max(store.get_min_offset_in_queue(topic, queue_id), 0)
    end = store.get_max_offset_in_queue(topic, queue_id)
    while offset < end:
        answer = store.get_message(topic, queue_id, offset, _PULLED_AT_ONCE)
        yield from zip(answer.records, answer.physical_offsets, strict=True)
        if answer.next_begin_offset <= offset:
            found = f"{answer.next_begin_offset}, {answer.status.value}"
            raise TargetViolation("pull", f"to go on behind {offset} of {end}", found)
        offset = answer.next_begin_offset
