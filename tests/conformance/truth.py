"""Expected answers: the right queues and look-ups for a log.

An explanation of a difference requires that our store is right, so this is checked first. A contradiction between our
store and its own log has no explanation.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tornlog.scenarios.oracle.ledger import LIGHT_OFFSETS
from tornlog.scenarios.oracle.light_places import light_queue
from tornlog.scenarios.oracle.reader import ENTRY_BYTES, tag_code
from tornlog.store.config import StoreConfig
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC, parse_delay_levels

from .observed import Entry, QueueKey, SeenRecord, StoreObservation, times_of, window_of

BLANK = (0, 0x7FFFFFFF, 0)
_TRANSACTION_MASK, _PREPARED, _ROLLBACK = 0xC, 0x4, 0xC

Places = dict[QueueKey, dict[int, Entry]]
"""Queue -> queue offset -> entry."""


def places_of(seen: StoreObservation, config: StoreConfig) -> Places:
    """Return the expected entries of each record, in its own queue and in light queues."""
    delays_ms = parse_delay_levels(config.message_delay_level)
    places: Places = defaultdict(dict)
    for record in seen.records.values():
        if record.sys_flag & _TRANSACTION_MASK in (_PREPARED, _ROLLBACK):
            continue
        entry = (record.offset, record.size, _code(record, delays_ms))
        places[record.topic, record.queue_id][record.queue_offset] = entry
        if config.enable_multi_dispatch:
            for key, queue_offset in _light_places(record):
                places[key].setdefault(queue_offset, entry)
    return places


def _code(record: SeenRecord, delays_ms: Mapping[int, int]) -> int:
    level = min(int(record.properties.get("DELAY", "0")), max(delays_ms, default=0))
    if record.topic == SCHEDULE_TOPIC and level > 0:
        return record.store_timestamp + delays_ms[level]
    return tag_code(record.properties.get("TAGS", ""))


def _light_places(record: SeenRecord) -> Iterator[tuple[QueueKey, int]]:
    names = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = record.properties.get(LIGHT_OFFSETS)
    if offsets is not None:
        for name, offset in zip(names, offsets.split(","), strict=False):
            yield light_queue(name, record.queue_id), int(offset)


def keyed_offsets(seen: StoreObservation) -> dict[tuple[str, str], list[int]]:
    """Return the log offsets of the messages with a key, by topic and key, in ascending order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in seen.records.values():
        if record.sys_flag & _TRANSACTION_MASK == _ROLLBACK:
            continue
        for key in dict.fromkeys(keys_of(record)):
            found[record.topic, key].append(record.offset)
    return found


def keys_of(record: SeenRecord) -> list[str]:
    """Return a record's unique key and its other keys, with repetitions."""
    properties = record.properties
    return [key for key in (properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")) if key]


def contradictions_of(seen: StoreObservation, config: StoreConfig) -> Iterator[tuple[str, object, object]]:
    """Yield contradictions between a store and its own log: place, expected, found."""
    places = places_of(seen, config)
    for key, expected in places.items():
        queue = seen.queues.get(key)
        for queue_offset, entry in expected.items():
            found = None if queue is None else queue.entry(queue_offset)
            if found != entry:
                yield f"{_name(key)} {queue_offset}", entry, found
    for key, queue in seen.queues.items():
        expected = places.get(key, {})
        last = max(expected, default=queue.max_offset)  # blanks count only before other entries
        for number, found in enumerate(queue.entries, queue.min_offset):
            if (found != BLANK or number > last) and expected.get(number) != found:
                yield f"{_name(key)} {number}", expected.get(number), found
        shown = [phy for phy, size, _ in queue.entries if phy >= seen.min_offset and size != BLANK[1]]
        if queue.pulled != shown:
            yield f"{_name(key)} pulled", shown, queue.pulled
    if config.message_index_enable:
        keyed = keyed_offsets(seen)
        for (topic, name), found_offsets in seen.lookups.items():
            if found_offsets != keyed[topic, name]:
                yield f"look-up {topic} {name}", keyed[topic, name], found_offsets
        yield from _window_contradictions(seen, keyed)
    yield from _nearest_contradictions(seen, config)


def _window_contradictions(
    seen: StoreObservation, keyed: Mapping[tuple[str, str], list[int]]
) -> Iterator[tuple[str, object, object]]:
    """Yield wrong results for a time window. Index times are in seconds, so messages of one more second are allowed."""
    begin_ms, end_ms = window_of(times_of(seen))
    for (topic, name), found_offsets in seen.windowed.items():
        stored_ms = {offset: seen.records[offset].store_timestamp for offset in keyed[topic, name]}
        must = [offset for offset, at_ms in stored_ms.items() if begin_ms <= at_ms <= end_ms]
        may = [offset for offset, at_ms in stored_ms.items() if begin_ms <= at_ms < end_ms + 1_000]
        if not set(must) <= set(found_offsets) <= set(may):
            yield f"look-up {topic} {name} from {begin_ms} to {end_ms}", must, found_offsets


def _nearest_contradictions(seen: StoreObservation, config: StoreConfig) -> Iterator[tuple[str, object, object]]:
    """Yield wrong look-ups by time. Only for queues of one file: with several files the result depends on mtimes."""
    per_file = config.mapped_file_size_consume_queue // ENTRY_BYTES
    for (key, time_ms), found in seen.nearest.items():
        queue = seen.queues[key]
        if (queue.max_offset - 1) // per_file != queue.min_offset // per_file:
            continue
        stored_ms = {
            number: seen.records[entry[0]].store_timestamp
            for number, entry in enumerate(queue.entries, queue.min_offset)
            if entry[:2] != BLANK[:2] and entry[0] in seen.records
        }
        times_ms = list(stored_ms.values())
        if times_ms != sorted(times_ms):  # 4.9.8 writes them after a clock step back: no bisection works there
            continue
        away_ms = {number: abs(at_ms - time_ms) for number, at_ms in stored_ms.items()}
        if away_ms and away_ms.get(found) != min(away_ms.values()):
            nearest = min(away_ms, key=lambda number: away_ms[number])
            yield f"{_name(key)} at {time_ms}", nearest, found


def _name(key: QueueKey) -> str:
    return f"queue {key[0]}/{key[1]}"
