"""Lookups through a broker: messages by id, bounds of a queue, and offsets by time (READ).

The answer to a lookup by key is checked in `idx`. All times are store times in ms since 1970. RocketMQ selects one file
of the consume queue by its time of modification, and searches only there.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..evidence import Violation, record_tried
from ..group_delivery import Queue
from ..ledger import Ledger
from ..put_entry import PutEntry
from ..reader import ReadRecord
from .consumers import check_received

ENTRY_BYTES = 20


def check_viewed_message(
    ledger: Ledger, put: PutEntry | None, log_offset: int, found: Iterable[ReadRecord], *, must_be_there: bool
) -> Iterator[Violation]:
    """Yield each error in the answer to VIEW_MESSAGE_BY_ID.

    put: the message at the log offset, None if no record begins there. found: the records in the answer.
    """
    record_tried("READ")
    readings = list(found)
    if not readings and put is not None and must_be_there:
        yield _violation(f"{put.name} is not found by its id", "message", put.name, "none")
    if len(readings) > 1:
        yield _violation(f"several messages at {log_offset}", "messages", 1, len(readings))
    for record, body in readings:
        if record.physical_offset != log_offset:
            yield _violation(f"a wrong message for {log_offset}", "offset", log_offset, record.physical_offset)
        seen = ledger.put_seen_in(record)
        if seen is None or seen.body != body:
            yield _violation(f"a message at {log_offset} that no producer put", "message", "a put", record.topic)
        else:
            yield from check_received(ledger, seen, record)


class QueueBounds(NamedTuple):
    """The first offset of a queue, and the end after its last message."""

    low: int
    high: int


def check_queue_bounds(
    ledger: Ledger, queue: Queue, bounds: QueueBounds, before: QueueBounds, dispatched_to: int
) -> Iterator[Violation]:
    """Yield each wrong answer to GET_MIN_OFFSET and GET_MAX_OFFSET, requested in this order.

    before: the highest bounds that an answer had before the request, since the broker's last start. dispatched_to: the
    log offset before which all records were in their queues before the request.
    """
    record_tried("READ")
    name, puts = f"{queue[0]}/{queue[1]}", [put for put in ledger.puts if put.place == queue]
    there = [
        put.queue_offset
        for put in puts
        if put.queue_offset is not None
        and put.physical_offset is not None
        and put.name not in ledger.lost_puts
        and ledger.expired_to <= put.physical_offset <= dispatched_to - put.record_bytes
    ]
    end = max((offset + 1 for offset in there), default=0)
    least_end = max(end, before.high)
    most = len(puts) + sum(put.topic == queue[0] and put.queue_id < 0 for put in ledger.puts)
    if not least_end <= bounds.high <= most:
        yield _violation(f"wrong end of {name}", "maxOffset", f"{least_end} to {most}", bounds.high)
    first = min(there, default=bounds.high)
    if not before.low <= bounds.low <= max(first, before.low):
        yield _violation(f"wrong begin of {name}", "minOffset", f"{before.low} to {first}", bounds.low)
    if not ledger.expired_to and bounds.low:
        yield _violation(f"{name} begins after its first message", "minOffset", 0, bounds.low)


def check_offset_by_time(
    queue: Queue, wanted_ms: int, offset: int, times: Mapping[int, int], bounds: QueueBounds, entries_per_file: int
) -> Iterator[Violation]:
    """Yield an offset for a time although a neighbour in the same file has a nearer time, or that is in no file.

    No file is older than its first message. So if the time is not after the first message of a queue, that is the
    answer. times: queue offset -> store time of the message at the answered offset, of its neighbours, and of the first
    message. bounds: of the queue before the request. A later message is no neighbour.
    """
    record_tried("READ")
    name = f"{queue[0]}/{queue[1]}"
    if not bounds.low <= offset:
        yield _violation(f"wrong offset of {name} by time", "offset", f"{bounds.low} or more", offset)
    if offset not in times:
        return  # the queue was empty, or the message has expired since
    distance_ms = abs(times[offset] - wanted_ms)
    for other, stored_ms in times.items():
        is_in_file = other // entries_per_file == offset // entries_per_file
        is_neighbour = other < bounds.high and (is_in_file or (other == bounds.low == 0 and wanted_ms <= stored_ms))
        if is_neighbour and abs(stored_ms - wanted_ms) < distance_ms:
            summary = f"the offset of {name} by time is not the nearest"
            expected = f"{other}, stored {abs(stored_ms - wanted_ms)} ms from the time"
            yield _violation(summary, "offset", expected, f"{offset}, {distance_ms} ms from it")


def check_missing_queue(queue: Queue, field: str, expected: int, found: int) -> Iterator[Violation]:
    """Yield a wrong answer about a queue that its topic does not have."""
    record_tried("READ")
    if found != expected:
        yield _violation(f"wrong answer about {queue[0]}/{queue[1]}, which is missing", field, expected, found)


def check_earliest_time(queue: Queue, answered_ms: int, first_ms: int | None) -> Iterator[Violation]:
    """Yield a wrong answer to GET_EARLIEST_MSG_STORETIME.

    first_ms: the store time of the first message, None if the queue may have been empty at the request.
    """
    record_tried("READ")
    if first_ms is not None and answered_ms != first_ms:
        yield _violation(f"wrong first time of {queue[0]}/{queue[1]}", "timestamp", first_ms, answered_ms)


def check_last_time(queue: Queue, answered_ms: int, last_ms: int | None) -> Iterator[Violation]:
    """Yield a wrong store time of a queue's last message in GET_TOPIC_STATS_INFO.

    last_ms: the store time of the message before the answered end, None if it was not read.
    """
    record_tried("READ")
    if last_ms is not None and answered_ms != last_ms:
        yield _violation(f"wrong last time of {queue[0]}/{queue[1]}", "lastUpdateTimestamp", last_ms, answered_ms)


def check_progress(
    queue: Queue,
    own: int,
    found: Mapping[str, int],
    times: Mapping[int, int],
    ends: QueueBounds,
    asked_ms: range | None,
) -> Iterator[Violation]:
    """Yield each wrong figure of a group in GET_CONSUME_STATS and QUERY_CONSUME_TIME_SPAN.

    own: the group's offset. times: queue offset -> store time of the message. ends: the end of the queue before and
    after the requests. asked_ms: the time of the requests; None if clocks step. The queue begins at 0.
    """
    record_tried("READ")
    last_ms, next_ms = times.get(own - 1), times.get(own)
    is_behind = own < ends.low and next_ms is not None and asked_ms is not None
    expected: dict[str, int | range | None] = {
        "brokerOffset": range(ends.low, ends.high + 1),
        "consumerOffset": own,
        "lastTimestamp": last_ms if own else 0,
        "minTimeStamp": times.get(0),
        "maxTimeStamp": times.get(ends.low - 1) if ends.low == ends.high else None,
        "consumeTimeStamp": last_ms if own else times.get(0),
        "delayTime": 0 if own == ends.high else None,
    }
    if is_behind and asked_ms is not None and next_ms is not None:
        expected["delayTime"] = range(asked_ms.start - next_ms, asked_ms.stop - next_ms)
    for name, wanted in expected.items():
        figure = found.get(name)
        if wanted is not None and (figure not in wanted if isinstance(wanted, range) else figure != wanted):
            yield _violation(f"a wrong figure of a group at {own} in {queue[0]}/{queue[1]}", name, wanted, figure)


def check_counts(topic: str, found: Mapping[str, int], expected: Mapping[str, range]) -> Iterator[Violation]:
    """Yield each wrong count of VIEW_BROKER_STATS_DATA, by its name."""
    record_tried("READ")
    for name, wanted in expected.items():
        if found[name] not in wanted:
            yield _violation(f"a wrong count {name} in {topic}", "sum", wanted, found[name])


def check_runtime_info(table: Mapping[str, str], dispatched_to: int, begin_ms: int | None) -> Iterator[Violation]:
    """Yield each wrong figure of a broker.

    dispatched_to: the log offset before which all records were in their queues before the request. begin_ms: the store
    time of the log's first message.
    """
    record_tried("READ")
    end = int(table["commitLogMaxOffset"])
    if end < dispatched_to:
        yield _violation("a broker's log has a wrong end", "commitLogMaxOffset", f">= {dispatched_to}", end)
    if begin_ms is not None and int(table["earliestMessageTimeStamp"]) != begin_ms:
        found = table["earliestMessageTimeStamp"]
        yield _violation("a broker's first message has a wrong time", "earliestMessageTimeStamp", begin_ms, found)
    totals = [int(table[f"msgPutTotal{time}"]) for time in ("YesterdayMorning", "TodayMorning", "TodayNow")]
    totals.insert(2, 0 if not totals[2] else int(table["putMessageTimesTotal"]))  # RocketMQ shows 0 as 1
    if totals != sorted(totals):
        yield _violation("a broker's totals decrease", "msgPutTotalTodayNow", sorted(totals), totals)


class ListedEntry(NamedTuple):
    """An entry of a consume queue: the place of a message in the log."""

    log_offset: int
    size_bytes: int


def check_queue_entries(
    ledger: Ledger, queue: Queue, asked: range, entries: Mapping[int, ListedEntry], bounds: QueueBounds
) -> Iterator[Violation]:
    """Yield each error in the entries that QUERY_CONSUME_QUEUE returned.

    asked: the requested queue offsets. bounds: the begin of the queue in the answer, and its end before the request.
    """
    record_tried("READ")
    name = f"{queue[0]}/{queue[1]}"
    expected = range(max(asked.start, bounds.low), min(asked.stop, bounds.high))
    missing = [offset for offset in expected if offset not in entries]
    if missing:
        yield _violation(f"entries of {name} are missing", "queueData", f"an entry at {missing[0]}", "none")
    beyond = [offset for offset in entries if offset not in asked]
    if beyond:
        yield _violation(f"entries of {name} that were not asked for", "queueData", asked, f"an entry at {beyond[0]}")
    for put in ledger.puts:
        found = entries.get(-1 if put.queue_offset is None else put.queue_offset)
        if put.place != queue or put.physical_offset is None or put.name in ledger.lost_puts or found is None:
            continue
        # A broker adds properties, so the size is known only after the record was received or read.
        known = ListedEntry(put.physical_offset, found.size_bytes if put.wrote_bytes is None else put.wrote_bytes)
        if found != known:
            yield _violation(f"the entry of {put.name} in {name} is wrong", "queueData", known, found)


def _violation(summary: str, field: str, expected: object, found: object) -> Violation:
    return Violation("READ", f"a lookup: {summary}", field=field, expected=str(expected), found=str(found))
