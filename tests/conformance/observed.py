"""Observations: the user-visible state of a store, in a comparable form.

records   every record, by a look-up by offset
queues    per queue its bounds, its entries, and the messages that a consumer pulls from it
lookups   by topic and key: the offsets that a query returns, in its order
progress  of delayed delivery: level -> queue offset of the next message

Look-ups by time use `times_of` the records: each queue for the message nearest to each of these times, each key for the
messages between the second time and the last but one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tornlog.store.config import StoreConfig
from tornlog.store.delivery.schedule import decoded_offsets
from tornlog.store.errors import StoreError
from tornlog.store.formats.consume_queue import ADDRESS_MAX
from tornlog.store.formats.host import Host, encode_message_id
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.properties import decode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.real.world import overlay_world
from tornlog.store.recovery.recovery import RecoveryReport
from tornlog.store.tools.observed import entries_of, records_of

from .deviations import Deviation

QueueKey = tuple[str, int]
Entry = tuple[int, int, int]
"""phyOffset, size, tagsCode; for an extended entry, the unit's tagsCode."""
FOUND_MAX = 1_000
_PULLED_MAX = 32
_FOREVER_MS = (1 << 63) - 1


class SeenRecord(NamedTuple):
    """One record; hosts are hex:port, the body is a digest."""

    offset: int
    size: int
    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    flag: int
    born_timestamp: int
    store_timestamp: int
    born_host: str
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body: str
    properties: dict[str, str]


@dataclass(slots=True)
class SeenQueue:
    min_offset: int
    max_offset: int
    entries: list[Entry]
    """From min_offset on."""
    pulled: list[int]
    """Log offsets of the messages that a consumer pulls."""

    def entry(self, queue_offset: int) -> Entry | None:
        at = queue_offset - self.min_offset
        return self.entries[at] if 0 <= at < len(self.entries) else None


@dataclass(slots=True)
class StoreObservation:
    """The whole state, or the reason for which the store did not open."""

    refusal: str = ""
    min_offset: int = -1
    max_offset: int = 0
    records: dict[int, SeenRecord] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)
    """Log offsets of parts of the log that are no records."""
    queues: dict[QueueKey, SeenQueue] = field(default_factory=dict)
    lookups: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    windowed: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """The same for messages between two times."""
    nearest: dict[tuple[QueueKey, int], int] = field(default_factory=dict)
    """By queue and time in ms: the queue offset of the nearest message, -1 if the look-up raises."""
    progress: dict[int, int] | None = field(default_factory=dict)
    """None if the store does not deliver."""
    report: RecoveryReport | None = None
    """Of our recovery."""


def read_answer(answer: dict[str, Any]) -> StoreObservation:
    if "exception" in answer:
        return StoreObservation(refusal=f"{answer['exception']} at {answer['thrownAt']}")
    if not answer["load"]:
        return StoreObservation(refusal="load() returned false")
    if not answer["start"]:
        behind_bytes = answer["dispatchBehindBytes"]
        return StoreObservation(refusal=f"start() does not end: dispatch is {behind_bytes} bytes behind")
    seen = StoreObservation(min_offset=answer["minPhyOffset"], max_offset=answer["maxPhyOffset"])
    for fields in answer["records"]:
        if len(fields) == len(SeenRecord._fields):
            seen.records[fields[0]] = SeenRecord._make(fields)
        else:
            seen.unreadable.append(fields[0])
    for one in answer["queues"]:
        entries = [(entry[0], entry[1], entry[2]) for entry in one["entries"]]
        key = (one["topic"], one["queueId"])
        seen.queues[key] = SeenQueue(one["minOffset"], one["maxOffset"], entries, one["pulled"])
    seen.lookups = {(topic, key): offsets for topic, key, offsets in answer["queries"]}
    seen.windowed = {(topic, key): offsets for topic, key, offsets in answer["windowed"]}
    seen.nearest = {
        ((one["topic"], one["queueId"]), time_ms): found
        for one in answer["queues"]
        for time_ms, found in one["nearest"]
    }
    raw = answer.get("delayOffsets")
    seen.progress = None if raw is None else decoded_offsets(raw.encode(), "config/delayOffset.json")
    return seen


def observe(directory: Path, config: StoreConfig) -> StoreObservation:
    """Open a directory with our store in memory, and return its state."""
    world = overlay_world()
    config = replace(config, store_path_root_dir=str(directory), max_msgs_num_batch=FOUND_MAX)
    store = MessageStore(world, config)
    try:
        report = store.load()
    except (StoreError, OSError) as error:
        return StoreObservation(refusal=f"{type(error).__name__}: {error}".replace(f"{directory}/", ""))
    seen = StoreObservation(min_offset=store.min_phy_offset, max_offset=store.max_phy_offset, report=report)
    for fields in records_of(store):
        if fields.get("blank"):
            continue
        record = store.look_message_by_offset(fields["offset"]) if len(fields) > 3 else None
        if record is None or "crcMismatch" in fields:
            seen.unreadable.append(fields["offset"])
        else:
            seen.records[record.physical_offset] = _seen(record)
    for queue in store.queues.all_queues():
        if queue.max_offset > 0:
            seen.queues[queue.topic, queue.queue_id] = _seen_queue_of(store, queue)
    if store.index is not None:
        begin_ms, end_ms = window_of(times_of(seen))
        for topic, key in dict.fromkeys(_keys(seen)):
            found = store.query_message(topic, key, FOUND_MAX, 0, _FOREVER_MS)
            seen.lookups[topic, key] = found.physical_offsets
            found = store.query_message(topic, key, FOUND_MAX, begin_ms, end_ms)
            seen.windowed[topic, key] = found.physical_offsets
    for topic, queue_id in seen.queues:
        for time_ms in times_of(seen):
            found_at = store.get_offset_in_queue_by_time(topic, queue_id, time_ms)
            seen.nearest[(topic, queue_id), time_ms] = found_at
    seen.progress = dict(store.schedule.offsets)
    return seen


def times_of(seen: StoreObservation) -> list[int]:
    """Return the times in ms for look-ups: before all records, at five of them, and after all."""
    stored = sorted({record.store_timestamp for record in seen.records.values()})
    if not stored:
        return []
    inner = dict.fromkeys(stored[(len(stored) - 1) * part // 4] for part in range(5))
    return [stored[0] - 1, *inner, stored[-1] + 1]


def window_of(times_ms: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last ms for look-ups by key."""
    return (times_ms[1], times_ms[-2]) if times_ms else (0, 0)


def _seen(record: MessageRecord) -> SeenRecord:
    return SeenRecord(
        record.physical_offset,
        record.size_bytes,
        encode_message_id(record.store_host, record.physical_offset),
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.flag,
        record.born_timestamp_ms,
        record.store_timestamp_ms,
        _host(record.born_host),
        _host(record.store_host),
        record.reconsume_times,
        record.prepared_transaction_offset,
        sha256(record.body).hexdigest()[:16],
        decode_properties(record.properties),
    )


def _host(host: Host) -> str:
    return f"{host.address.hex()}:{host.port}"


def _seen_queue_of(store: MessageStore, queue: ConsumeQueue) -> SeenQueue:
    pulled: list[int] = []
    at = queue.min_offset
    while at < queue.max_offset:
        result = store.get_message(queue.topic, queue.queue_id, at, _PULLED_MAX, None)
        pulled += result.physical_offsets
        if result.next_begin_offset <= at:
            break
        at = result.next_begin_offset
    entries = [(entry[0], entry[1], _code(queue, entry[2])) for entry in entries_of(queue)]
    return SeenQueue(queue.min_offset, queue.max_offset, entries, pulled)


def _code(queue: ConsumeQueue, tags_code: int) -> int:
    unit = queue.ext_unit_at(tags_code) if tags_code <= ADDRESS_MAX else None
    return tags_code if unit is None else unit.tags_code


def _keys(seen: StoreObservation) -> Iterator[tuple[str, str]]:
    for record in seen.records.values():
        properties = record.properties
        unique = properties.get("UNIQ_KEY")
        if unique:
            yield record.topic, unique
        for key in properties.get("KEYS", "").split(" "):
            if key:
                yield record.topic, key


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """One difference."""

    place: str
    ours: str
    real: str
    deviation: Deviation | None
    """Its explanation, if any."""

    def to_json(self) -> dict[str, Any]:
        name = None if self.deviation is None else self.deviation.name
        return {"place": self.place, "ours": self.ours, "real": self.real, "deviation": name}


@dataclass(frozen=True, slots=True)
class OpenedDirectory:
    """A directory as written, and as seen by both stores."""

    config: StoreConfig
    files: Mapping[str, bytes]
    """Its files as written, by relative path."""
    ours: StoreObservation
    real: StoreObservation
    version: str
    """Of the real store."""

    @property
    def log_files(self) -> dict[int, bytes]:
        """Return the log's files by their first offset, from all directories of the log."""
        root = f"{self.config.store_path_root_dir}/"
        names = [path.removeprefix(root) for path in self.config.commit_log_directories]
        return {
            int(path.rpartition("/")[2]): content
            for path, content in self.files.items()
            if path.rpartition("/")[0] in names and path.rpartition("/")[2].isdecimal()
        }
