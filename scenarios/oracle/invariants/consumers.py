"""Consumers: READ (each matching message once, in queue order) and VIS (consumed messages stay).

The workload has no two tags with equal hashes, because the store's filter does not distinguish them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ....store.config import StoreConfig
from ....store.formats.messages import GetMessageStatus
from ....store.message_store import MessageStore
from ..evidence import Evidence, Violation, record_tried
from ..group_delivery import GroupDelivery, Queue, user_places
from ..ledger import Ledger, Pull
from ..light_places import light_places
from ..misfiled import may_be_misfiled
from ..put_entry import FieldDifference, PutEntry
from ..reader import LogRecord
from ..recovered import RecoveredStore

_AFTER_EVERY_QUEUE = 1_000_000
_NAMES_SHOWN = 3

_TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that RocketMQ trims from both ends of a tag in a subscription."""


def check_queue_reads(ledger: Ledger, store: RecoveredStore) -> Iterator[Violation]:
    """READ: yield each pass over a queue since the last start with a missing, repeated or non-matching message.

    A damaged record may be missing. store: the store before the next stop or crash.
    """
    for pull in ledger.pulls:
        record_tried("READ")
        wanted = _wanted_messages(pull, ledger, store)
        unreadable = ledger.known_damage.unreadable
        received = [
            put.name for put in pull.puts if not ledger.may_be_removed(put) and put.physical_offset not in unreadable
        ]
        if received != wanted:
            yield _wrong_read_violation(ledger, pull, wanted, received)


def _wrong_read_violation(ledger: Ledger, pull: Pull, wanted: list[str], received: list[str]) -> Violation:
    """Return the first wrong message, with the start of the pulls and its reason."""
    same = next((at for at, pair in enumerate(zip_longest(wanted, received)) if pair[0] != pair[1]), 0)
    names = wanted[same : same + 1] or received[same : same + 1]
    offsets = [ledger.by_name[name].queue_offset for name in names]
    place = pull.begin_offset if not offsets or offsets[0] is None else offsets[0]
    why = "the stored progress of its group" if pull.begin_offset else "the first message"
    began = f"the consumer began at queue offset {pull.begin_offset}, {why}, and read to {pull.end_offset}"
    name, shown = f"{pull.topic}/{pull.queue_id}", (_first_names(wanted[same:]), _first_names(received[same:]))
    summary = f"a consumer of {name} (tags {pull.tags or '*'}) got a wrong message {same + 1}"
    detail = f"{began}; its first {same} messages are right"
    return Violation("READ", summary, f"consumequeue/{name}", place * 20, "messages", *shown, detail)


def _first_names(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"


def unknown_record_violation(shown: str) -> Violation:
    return Violation("VIS", "a consumer received a record that no producer put", "", -1, "record", "a put", shown)


def check_received(ledger: Ledger, put: PutEntry, record: LogRecord) -> Iterator[Violation]:
    """READ: yield each field of a consumed record that differs from its put.

    The record is the put's own record or a copy. The caller found the put by body and properties.
    """
    record_tried("READ")
    is_committed = put.waiting_place is not None and put.delay_ms is None
    wrong = list(put.differences(record, is_committed=is_committed, tears=ledger.tears))
    if put.waiting_place is None and not may_be_misfiled(record.physical_offset, tears=ledger.tears):
        for at, field, expected, found in (
            (20, "queueOffset", put.queue_offset, record.queue_offset),
            (28, "physicalOffset", put.physical_offset, record.physical_offset),
        ):
            if expected is not None and expected != found:
                wrong.append(FieldDifference(at, field, str(expected), str(found)))
    for at, field, expected_text, found_text in wrong:
        summary = f"{put.name} reached a consumer with a changed field"
        yield Violation("READ", summary, "answer to a pull", at, field, expected_text, found_text)


class PullBounds(NamedTuple):
    """The offsets in the answer to a pull."""

    min_offset: int
    next_begin_offset: int
    max_offset: int


def check_pull_bounds(
    ledger: Ledger, bounds: PullBounds, offsets: tuple[int, int, int], *, passes_over: bool
) -> Iterator[Violation]:
    """READ: yield wrong offsets in the answer to a pull with messages.

    offsets: the requested offset, that of the first message, and that after the last message. passes_over: whether the
    answer may skip messages that do not match the subscription.
    """
    record_tried("READ")
    (low, going_on, high), (position, begin, following) = bounds, offsets
    is_next = going_on >= following if passes_over else going_on == following
    begins = low <= begin or ledger.expired_to > 0  # otherwise messages may expire while a consumer reads them
    # The store reads maxOffset before the entries, and may skip the first entries because of other tags or expiry.
    if not (begins and is_next and position < high):
        expected = f"minOffset <= {begin}, nextBeginOffset {'>= ' * passes_over}{following}, maxOffset > {position}"
        found = f"{low}, {going_on}, {high}"
        yield Violation("READ", "a pull is answered with wrong offsets", "", -1, "offsets", expected, found)


def check_offsets(queue: Queue, position: int, status: GetMessageStatus, bounds: PullBounds) -> Iterator[Violation]:
    """READ: yield an answer to a pull if its status or next offset contradicts the requested offset.

    status                 the requested offset is   the next offset is
    FOUND                  in the queue              after the last message
    NO_MATCHED_MESSAGE     in the queue              later
    MESSAGE_WAS_REMOVING   in the queue              later
    OFFSET_FOUND_NULL      in the queue              later, at a file's begin
    OFFSET_OVERFLOW_ONE    the end of the queue      the same
    OFFSET_OVERFLOW_BADLY  after the end             the end
    OFFSET_TOO_SMALL       before the first message  that of the first message
    NO_MESSAGE_IN_QUEUE    any                       0, and so is the end
    """
    record_tried("READ")
    low, following, high = bounds
    if status is GetMessageStatus.NO_MESSAGE_IN_QUEUE:
        is_legal, is_next = high == 0, following == 0
    elif status is GetMessageStatus.OFFSET_TOO_SMALL:
        is_legal, is_next = position < low, following == low
    elif status is GetMessageStatus.OFFSET_OVERFLOW_ONE:
        is_legal, is_next = position == high, following == position
    elif status is GetMessageStatus.OFFSET_OVERFLOW_BADLY:
        is_legal, is_next = position > high, following == high
    else:
        is_legal, is_next = low <= position < high, following > position
    if not (is_legal and is_next):
        summary = f"a pull of {queue[0]}/{queue[1]} at {position} is answered with {status.value}"
        found = f"minOffset {low}, nextBeginOffset {following}, maxOffset {high}"
        expected = "the next offset of this status" if is_legal else "another status"
        yield Violation("READ", summary, "answer to a pull", -1, "offsets", expected, found)


def check_answer_size(
    config: StoreConfig, queue: Queue, asked_max: int, records: Sequence[bytes]
) -> Iterator[Violation]:
    """READ: yield an answer to a pull that exceeds a limit of the request or of the settings.

    The first message of an answer may exceed every limit. Messages in memory and on disk have limits of their own.
    """
    record_tried("READ")
    counts = config.max_transfer_count_on_message_in_memory, config.max_transfer_count_on_message_in_disk
    sizes = config.max_transfer_bytes_on_message_in_memory, config.max_transfer_bytes_on_message_in_disk
    most, most_bytes, found_bytes = max(min(asked_max, max(counts)), 1), max(sizes), sum(map(len, records))
    if len(records) > most or (len(records) > 1 and found_bytes > most_bytes):
        summary = f"a pull of {queue[0]}/{queue[1]} is answered with too many messages"
        expected = f"at most {most} messages, or {most_bytes} bytes of several"
        found = f"{len(records)} messages, {found_bytes} bytes"
        yield Violation("READ", summary, "answer to a pull", -1, "messages", expected, found)


def check_skipped_messages(
    ledger: Ledger,
    queue: Queue,
    begin: int,
    end: int,
    *,
    offsets: Collection[int] = (),
    wants: Callable[[bytes], bool] | None = None,
) -> Iterator[Violation]:
    """CLEAN: yield the first unexpired message in [begin, end) of a queue that an answer skipped.

    READ, if the answer may skip messages that do not match: the first message that `wants` selects by its properties.
    offsets: the queue offsets of messages in the answer. The caller passes only answers since the last start, because
    an older answer may not contain later changes of the queue.
    """
    invariant = "CLEAN" if wants is None else "READ"
    record_tried(invariant)
    owed = {
        put.queue_offset: put
        for put in (*ledger.promised.values(), *ledger.puts_of_this_life())
        if put.place == queue and put.physical_offset is not None and put.physical_offset >= ledger.expired_to
    }
    for queue_offset in range(begin, end):
        put = owed.get(queue_offset)
        if put is not None and queue_offset not in offsets and (wants is None or wants(put.properties)):
            summary = f"a consumer skips {put.name}, which has not expired"
            expected, found = (f"queue offset {each} of {queue[0]}/{queue[1]}" for each in (queue_offset, end))
            yield Violation(invariant, summary, field="next offset", expected=expected, found=found)
            return


def check_all_handled(
    ledger: Ledger, group: GroupDelivery, store: RecoveredStore, wants: Callable[[bytes], bool]
) -> Iterator[Violation]:
    """LIVE: yield each matching message in the log that no member of the group has processed.

    wants: returns whether a message with these properties matches.
    """
    for place, found in user_places(store.records):
        record_tried("LIVE")
        if group.is_owed(place) and wants(found.record.properties):
            put = ledger.put_seen_in(found.record)
            name = "a record" if put is None else put.name
            summary = f"{name} at {place} was never processed by a consumer"
            yield Violation("LIVE", summary, field="delivery", expected="at least once", found="never")


def wanted_tags(subscription: str | None) -> set[str] | None:
    return None if subscription is None else {tag.strip(_TRIMMED) for tag in subscription.split("||")}


def _wanted_messages(pull: Pull, ledger: Ledger, store: RecoveredStore) -> list[str]:
    tags, names = wanted_tags(pull.tags), []
    for found in store.records:
        record = found.record
        offset: int | None = record.queue_offset
        if (record.topic, record.queue_id) != (pull.topic, pull.queue_id):
            offset = light_places(record).get((pull.topic, pull.queue_id))
        if offset is None or record.physical_offset in ledger.known_damage.unreadable:
            continue
        put = ledger.put_seen_in(record)
        # `check_log_prefix` has checked the records from before the last start, and all later ones are puts
        assert put is not None, record
        if not put.is_queued or ledger.may_be_removed(put):
            continue
        if pull.begin_offset <= offset < pull.end_offset and (tags is None or put.tags in tags):
            names.append(put.name)
    return names


def check_pull_after_end(store: MessageStore, topic: str, queue_id: int) -> Iterator[Violation]:
    """READ: pull after the end of a queue. Yield an answer that does not lead to the end."""
    result = store.get_message(topic, queue_id, _AFTER_EVERY_QUEUE)
    bounds = PullBounds(result.min_offset, result.next_begin_offset, result.max_offset)
    yield from check_offsets((topic, queue_id), _AFTER_EVERY_QUEUE, result.status, bounds)


def check_look_up(store: MessageStore, ledger: Ledger, put: PutEntry) -> Iterator[Violation]:
    """READ: yield a missing or different record at the log offset with which a put was answered."""
    offset = put.physical_offset
    if offset is None or put.name in ledger.lost_puts:
        return
    record_tried("READ")
    readable = offset + put.record_bytes <= store.dispatch.readable_limit()
    record = store.look_message_by_offset(offset)
    if record is None:
        if readable and not ledger.may_be_removed(put):
            yield _wrong_record(put, "record", put.name, "none")
        return
    for field, expected, found in (
        ("properties", put.properties, record.properties.encode(errors="surrogateescape")),
        ("body", put.body, record.body),
        ("topic", put.place[0], record.topic),
    ):
        if expected != found:
            yield _wrong_record(put, field, repr(expected)[:80], repr(found)[:80])


def _wrong_record(put: PutEntry, field: str, expected: str, found: str) -> Violation:
    summary = f"looking up {put.name} returns something else"
    return Violation("READ", summary, "commitlog", put.physical_offset or 0, field, expected, found)


def check_visibility(evidence: Evidence) -> Iterator[Violation]:
    """VIS: yield each missing or replaced consumed message, unless retention or a fault permits the loss."""
    store = evidence.store
    if evidence.ledger.kept_messages:
        record_tried("VIS")
    for seen in evidence.ledger.kept_messages:
        if evidence.ledger.has_expired(seen.physical_offset, store.min_offset):
            continue
        queue = store.queues.get((seen.topic, seen.queue_id))
        index = seen.queue_offset - (queue.begin if queue else 0)
        found = None
        if queue is not None and 0 <= index < len(queue.entries):
            found = store.by_offset.get(queue.entries[index][0])
        if found is None or evidence.ledger.put_seen_in(found.record) is not seen.put:
            other = "nothing" if found is None else found.record.properties.decode(errors="replace")
            summary = f"{seen.put.name} was received by a consumer and is missing"
            place = f"consumequeue/{seen.topic}/{seen.queue_id}", seen.queue_offset * 20
            yield Violation("VIS", summary, *place, "message", seen.put.name, other)
