"""Dump: reads messages from a log without recovery, one segment at a time.

The dump reports damaged bytes and continues at the next record. It also reports a segment of a wrong length, ignoring
its extra bytes; a gap between segments; and a checkpoint with times if the log has no segment. Body checksums are
checked for selected messages only. After an unclean exit, damage after the last record is not reported.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.checkpoint import times_beyond_log
from ..formats.host import encode_message_id
from ..formats.message import MessageRecord, decode_record
from ..formats.properties import KEY_SEPARATOR, PROPERTY_KEYS, PROPERTY_UNIQ_KEY, decode_properties, find_property
from ..formats.scan import ScannedRecord, find_record, scan_records
from ..log.checkpoint import read_checkpoint
from ..log.segment import first_nonzero, segment_name
from ..log.segment_queue import file_name_of
from ..world import Files
from .geometry import log_statuses

FORMAT = "tornlog-dump/1"
_ZEROS = "zeros"


class BodyText(Enum):
    """Output format of message bodies."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class DumpSelection:
    """Conditions for selected messages."""

    topic: str | None = None
    queue_id: int | None = None
    begin: int = 0
    """First selected offset: a queue offset if queue_id is set, else a log offset."""
    end: int | None = None
    """Exclusive end of the selected offsets, of the same kind as `begin`."""
    key: str | None = None
    """A key that the message must have in KEYS or UNIQ_KEY."""

    def is_after(self, log_offset: int) -> bool:
        return self.queue_id is None and log_offset <= self.begin

    def is_before(self, log_offset: int) -> bool:
        return self.queue_id is None and self.end is not None and log_offset >= self.end

    def matches(self, record: ScannedRecord) -> bool:
        if self.topic is not None and record.topic != self.topic:
            return False
        if self.queue_id is not None and record.queue_id != self.queue_id:
            return False
        offset = record.physical_offset if self.queue_id is None else record.queue_offset
        if offset < self.begin or (self.end is not None and offset >= self.end):
            return False
        return self.key is None or _has_key(record.properties, self.key.encode(errors="surrogateescape"))


def _has_key(properties: bytes, key: bytes) -> bool:
    keys = find_property(properties, PROPERTY_KEYS.encode()) or b""
    unique = find_property(properties, PROPERTY_UNIQ_KEY.encode())
    return key == unique or key in keys.split(KEY_SEPARATOR.encode())


def dump_log(
    open_files: Callable[[], Files], config: StoreConfig, selection: DumpSelection, body: BodyText
) -> Iterator[dict[str, Any] | CorruptFileError]:
    """Yield messages as JSON objects of the contract, and damage as errors.

    Each segment is opened with a new `open_files()`, because an overlay never releases a mapped file. Raises OSError
    for unreadable files, and CorruptFileError if the checkpoint is needed and invalid.
    """
    files = open_files()
    unclean_exit = files.status(config.abort_path) is not None
    doubtful: list[CorruptFileError] = []  # after an unclean exit, an error counts only if a record follows
    # Zeros are damage only if a record follows, because the rest of the last segment is zero.
    zeros: list[CorruptFileError] = []
    segments, segment_bytes = list(log_statuses(files, config)), config.mapped_file_size_commit_log
    if not segments:
        claims, path = read_checkpoint(files, config.checkpoint_path), config.checkpoint_path
        yield from times_beyond_log(claims, 0, unclean_exit=unclean_exit, file=path)
    next_offset = int(file_name_of(segments[0][0])) if segments else 0
    for path, status in segments:
        base_offset, size_bytes = int(file_name_of(path)), min(status.size_bytes, segment_bytes)
        expected_offset, next_offset = next_offset, base_offset + segment_bytes
        if selection.is_after(base_offset + size_bytes):
            continue
        if selection.is_before(base_offset):
            break
        if base_offset > expected_offset:
            expected = f"the next segment, {segment_name(expected_offset)}"
            doubtful.append(CorruptFileError(path, 0, "base offset", expected, segment_name(base_offset)))
        view = open_files().map(path, size_bytes).view(0, size_bytes)
        if status.size_bytes != segment_bytes:
            wrong = CorruptFileError(path, 0, "file size", segment_bytes, status.size_bytes)
            if status.size_bytes < segment_bytes and first_nonzero(view) is None:
                doubtful.append(wrong)  # a crash can leave an unfinished segment
            else:
                yield wrong
        for found in read_segment(view, path, base_offset, segment_bytes):
            if isinstance(found, CorruptFileError):
                (zeros if found.found == _ZEROS else doubtful).append(found)
                continue
            if selection.is_before(found.physical_offset):
                break
            yield from (*doubtful, *zeros)  # a crash cannot damage bytes before a whole record
            doubtful.clear()
            zeros.clear()
            if selection.matches(found):
                try:
                    record = decode_record(view, found.physical_offset - base_offset, file=path)
                except CorruptFileError as error:
                    doubtful.append(error)
                else:
                    yield _record_fields(record, body)
        del view
    if not unclean_exit:
        yield from doubtful


def read_segment(
    view: memoryview, path: str, base_offset: int, segment_bytes: int
) -> Iterator[ScannedRecord | CorruptFileError]:
    at: int | None = 0
    while at is not None:
        try:
            end = len(view)
            for record in scan_records(view, at, end, file=path, base_offset=base_offset, check_crc=False):
                yield record
                at = record.physical_offset - base_offset + record.size_bytes
            return
        except CorruptFileError as error:
            if first_nonzero(view[at:]) is None:
                expected = "a record, because records follow"
                yield CorruptFileError(path, at, "magicCode", expected, _ZEROS)
                return
            yield error
            begin, at = at, find_record(view, at + 1, base_offset, segment_bytes)
            assert at is None or at > begin, (at, begin)


def _record_fields(record: MessageRecord, body: BodyText) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "format": FORMAT,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "offset": record.physical_offset,
        "size": record.size_bytes,
        "msgId": encode_message_id(record.store_host, record.physical_offset),
        "storeTimestamp": record.store_timestamp_ms,
        "bornTimestamp": record.born_timestamp_ms,
        "storeHost": str(record.store_host),
        "bornHost": str(record.born_host),
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "properties": {_shown(name): _shown(value) for name, value in decode_properties(record.properties).items()},
        "bodyLength": len(record.body),
    }
    if body is not BodyText.NONE:
        fields["body"] = _body_text(record.body, body)
    return fields


def _body_text(raw: bytes, body: BodyText) -> str:
    if body is BodyText.TEXT:
        return raw.decode(errors="replace")
    return raw.hex() if body is BodyText.HEX else b64encode(raw).decode()


def _shown(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")
