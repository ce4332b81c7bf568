"""Observations: what users can see of a store in a directory, the real one's or ours, in a form that can be compared.

records   every record, as a look-up by offset gives it
queues    of each queue its ends, its entries, and what a consumer gets who pulls all of it
lookups   by topic and key: the offsets a query finds, in the order in which it gives them
progress  of delayed delivery: level -> queue offset of the next message

Look-ups that take times are asked with `times_of` the records: each queue for the message nearest to each of them, each
key for the messages between the second and the last but one.
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
"""phyOffset, size, tagsCode: that of the unit where the entry has an extension's address."""
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
    """One queue."""

    min_offset: int
    max_offset: int
    entries: list[Entry]
    """From min_offset on."""
    pulled: list[int]
    """Log offset of each message that a consumer gets."""

    def entry(self, queue_offset: int) -> Entry | None:
        """Return the entry at a queue offset, None if it is in front of the first or behind the last."""
        at = queue_offset - self.min_offset
        return self.entries[at] if 0 <= at < len(self.entries) else None


@dataclass(slots=True)
class StoreObservation:
    """All of it; or, if the store did not open, why."""

    refusal: str = ""
    min_offset: int = -1
    max_offset: int = 0
    records: dict[int, SeenRecord] = field(default_factory=dict)
    """By log offset."""
    unreadable: list[int] = field(default_factory=list)
    """Log offsets of what the log has in place of records."""
    queues: dict[QueueKey, SeenQueue] = field(default_factory=dict)
    lookups: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    windowed: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """The same, of the messages between two times."""
    nearest: dict[tuple[QueueKey, int], int] = field(default_factory=dict)
    """By queue and time in ms: the queue offset of the message stored nearest to it, -1 if asking for it raises."""
    progress: dict[int, int] | None = field(default_factory=dict)
    """None where it is not the store that delivers."""
    report: RecoveryReport | None = None
    """What recovery did, if it was ours."""


def read_answer(answer: dict[str, Any]) -> StoreObservation:
    """Return what the real store saw, given its answer."""
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
    """Open a directory with our store, over memory that keeps all changes to itself, and return what is seen."""
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
    for queue in store.queues.all():
        if queue.max_offset > 0:
            seen.queues[queue.topic, queue.queue_id] = _seen_queue(store, queue)
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
    """Return the times in ms that look-ups are asked with: in front of all records, of five of them, behind all."""
    stored = sorted({record.store_timestamp for record in seen.records.values()})
    if not stored:
        return []
    inner = dict.fromkeys(stored[(len(stored) - 1) * part // 4] for part in range(5))
    return [stored[0] - 1, *inner, stored[-1] + 1]


def window_of(times_ms: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last ms of the window that keys are looked up in."""
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


def _seen_queue(store: MessageStore, queue: ConsumeQueue) -> SeenQueue:
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
    unit = queue.unit_at(tags_code) if tags_code <= ADDRESS_MAX else None
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
    """One place where the two differ."""

    place: str
    ours: str
    real: str
    deviation: Deviation | None
    """What explains it; None if nothing does."""

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON takes it."""
        name = None if self.deviation is None else self.deviation.name
        return {"place": self.place, "ours": self.ours, "real": self.real, "deviation": name}


@dataclass(frozen=True, slots=True)
class OpenedDirectory:
    """One directory, as it was found and as both stores saw it."""

    config: StoreConfig
    files: Mapping[str, bytes]
    """What was in it before anyone opened it, by path relative to it."""
    ours: StoreObservation
    real: StoreObservation
    version: str
    """Of the real store."""

    @property
    def log_files(self) -> dict[int, bytes]:
        """Return the files of the log by the offset they begin at, whichever directory of the log they are in."""
        root = f"{self.config.store_path_root_dir}/"
        names = [path.removeprefix(root) for path in self.config.commit_log_directories]
        return {
            int(path.rpartition("/")[2]): content
            for path, content in self.files.items()
            if path.rpartition("/")[0] in names and path.rpartition("/")[2].isdecimal()
        }
