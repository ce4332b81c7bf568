"""IDX, the half that asks: a look-up by key finds every message that has the key, each once, and nothing else.

`check_lookups` asks a store just recovered for each key of its log; `check_answer` judges what a user was given in the
midst of traffic. How soon a message can be found is not judged, only that it can once it is dispatched.
"""

from collections.abc import Iterator

from ....store.index.index_service import QueryMessageResult
from ....store.message_store import MessageStore
from ..evidence import Violation, tried
from ..ledger import BOOKKEEPING_TOPICS, Ledger
from ..reader import indexed_keys, keys_of, whole_at
from ..recovered import RecoveredStore

ANSWERS_MAX = 64
"""How many messages a look-up asks for, and is given at most."""
ALWAYS_MS = (0, 1 << 62)
"""From when to when a message must be stored to be found by a look-up over all times."""

_TOLERANCE_MS = 999  # an entry knows whole seconds


def check_lookups(store: MessageStore, found: RecoveredStore) -> Iterator[Violation]:
    """Yield every key of the log by which a store just recovered does not find exactly the messages that have it.

    Each key is asked for over all times, and for the very millisecond of its newest message.
    """
    if store.index is None:
        return
    places: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
    for one in found.records:
        record = one.record
        for key in dict.fromkeys(indexed_keys(record)):
            place = (record.physical_offset, record.store_timestamp_ms)
            places.setdefault((record.topic, key), []).append(place)
    for (topic, key), there in places.items():
        tried("IDX")
        newest_ms = there[-1][1]
        for begin_ms, end_ms in (ALWAYS_MS, (newest_ms, newest_ms)):
            result = store.query_message(topic, key.decode(), ANSWERS_MAX, begin_ms, end_ms)
            wanted = [offset for offset, stored_ms in there if stored_ms >= begin_ms][-ANSWERS_MAX:]
            if result.physical_offsets != wanted:
                yield _wrong_answer(topic, key.decode(), wanted, result.physical_offsets)


def check_answer(
    store: MessageStore,
    ledger: Ledger,
    asked: tuple[str, str],
    window_ms: tuple[int, int],
    result: QueryMessageResult,
    dispatched_to: int,
) -> Iterator[Violation]:
    """Yield what is wrong with the answer to a look-up, asked by topic and key, in the midst of traffic.

    dispatched_to: log offset up to which everything had been dispatched before it was asked.
    """
    tried("IDX")
    (topic, key), offsets = asked, result.physical_offsets
    if offsets != sorted(set(offsets)):
        yield _wrong_answer(topic, key, sorted(set(offsets)), offsets)
    for offset, raw in zip(offsets, result.records, strict=True):
        yield from _check_record(ledger, asked, window_ms, offset, raw)
    if window_ms == ALWAYS_MS:
        missed = _must_be_found(store, ledger, topic, key, dispatched_to).difference(offsets)
        if len(offsets) == ANSWERS_MAX:
            missed = {offset for offset in missed if offset > offsets[0]}
        if missed:
            yield _wrong_answer(topic, key, sorted({*offsets, *missed}), offsets)


def _check_record(
    ledger: Ledger, asked: tuple[str, str], window_ms: tuple[int, int], offset: int, raw: bytes
) -> Iterator[Violation]:
    """Yield what is wrong with one record of an answer."""
    (topic, key), reading = asked, whole_at(raw, 0, len(raw), offset)
    if reading is None or reading.record.topic != topic or key.encode() not in indexed_keys(reading.record):
        yield _violation("an answer without the key", offset, "record", f"{topic}#{key}", reading)
        return
    record, body = reading
    stored_ms = record.store_timestamp_ms
    if not window_ms[0] <= stored_ms <= window_ms[1] + _TOLERANCE_MS:
        yield _violation("an answer from another time", offset, "time", window_ms, stored_ms)
    put = ledger.by_properties.get(record.properties) or ledger.seen_in(record)
    if put is None and topic not in BOOKKEEPING_TOPICS:
        yield _violation("an answer that nobody put", offset, "record", "a put", record)
    elif put is not None and body != put.body:
        yield _violation("an answer with another body", offset, "record", put.name, record)


def _must_be_found(store: MessageStore, ledger: Ledger, topic: str, key: str, dispatched_to: int) -> set[int]:
    """Return where the own records are of answered puts with a key that are dispatched, and still there."""
    if store.index is None:
        return set()
    min_offset = store.min_phy_offset
    return {
        put.physical_offset
        for put in ledger.puts
        if put.physical_offset is not None
        and min_offset <= put.physical_offset <= dispatched_to - put.record_bytes
        and put.detour is None
        and put.topic == topic
        and put.name not in ledger.gone
        and key.encode() in keys_of(put.properties)
    }


def _wrong_answer(topic: str, key: str, wanted: list[int], found: list[int]) -> Violation:
    return _violation(f"a look-up of {key} in {topic}", -1, "messages", wanted, found)


def _violation(summary: str, offset: int, field: str, expected: object, found: object) -> Violation:
    return Violation("IDX", summary, "commitlog", offset, field, str(expected), str(found))
