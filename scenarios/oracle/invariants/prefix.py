"""PREFIX: the recovered log is a prefix of the appended records.

The log has no gaps, no unknown records, and no truncated record that reappears. A client that repeats a send makes
another put, so both records may be present. Unanswered puts may be present in any order, each at most once and equal
byte for byte. The same applies to the store's own records and copies of delayed and transactional messages; SCHED and
TX check when and how often the store copies. The order of properties in a redirected message is not checked. After a
crash, only records in a removed segment may reappear.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from ....store.formats.messages import PutMessageStatus
from ..evidence import Evidence, Violation, record_tried
from ..ledger import BOOKKEEPING_TOPICS, EVENT_TOPIC, OP_TOPIC
from ..misfiled import may_be_misfiled
from ..put_entry import FieldDifference, ProducerKnowledge, PutEntry, differences, differences_of_op
from ..recovered import FoundRecord

_broken = partial(Violation, "PREFIX")


def check_log_prefix(evidence: Evidence) -> Iterator[Violation]:
    """Yield each gap, and each record that no producer put, that is present twice, or that reappeared."""
    store, ledger = evidence.store, evidence.ledger
    if store.damage is not None:
        error = store.damage
        yield _broken("the log has a gap", error.file, error.offset, error.field, error.expected, error.found)
    if store.records:
        record_tried("PREFIX")
    elsewhere: set[str] = set()  # names of puts found at an offset that was unknown before; few in long runs
    put_of, gone = ledger.by_properties.get, ledger.lost_puts
    for found in store.records:
        _, _, topic, queue_id, _, _, stored_ms, properties, _ = found.record
        put = put_of(properties)
        if put is None or put.queue_id < 0:
            put = ledger.put_of(found.record)
        if put is None and topic == EVENT_TOPIC:
            continue
        if put is None and topic in BOOKKEEPING_TOPICS:
            yield from _changed_record_violations(found, _differences_of_bookkeeping(evidence, found))
            continue
        if put is None and (copied := ledger.put_copied_by(found.record)) is not None and copied.body == found.body:
            is_committed = copied.delay_ms is None
            if is_committed or not copied.has_expected_head(found.record):
                wrong = copied.differences(found.record, is_committed=is_committed, tears=ledger.tears)
                yield from _changed_record_violations(found, wrong)
            continue
        returned = ledger.put_returned_in(found.record) if put is None else None
        if returned is not None and returned.body == found.body:
            yield from _changed_record_violations(found, _differences_of_returned(evidence, returned, found))
            continue
        is_elsewhere = put is not None and put.place != (topic, queue_id) and not _may_be_misfiled(evidence, put, found)
        if put is None or put.body != found.body or is_elsewhere:
            wanted = "one that was put" if put is None else put.name
            shown = properties[:60].decode(errors="replace")
            yield _broken("a record that no producer put", found.file, found.position, "record", wanted, shown)
            continue
        if not put.has_expected_head(found.record) or put.stored_ms != stored_ms:
            yield from _changed_record_violations(found, put.differences(found.record, tears=ledger.tears))
        at_home = put.physical_offset == found.record.physical_offset
        if not at_home and (put.name in elsewhere or _is_at_answered_offset(evidence, put)):
            yield _broken("a put that is stored twice", found.file, found.position, "record", "once", put.name)
        if put.name in gone and found.record.physical_offset >= ledger.expired_to:
            summary, place = "a truncated record reappeared", (found.file, found.position)
            yield _broken(summary, *place, "resurrected record", "none", put.name)
        if put.status is not PutMessageStatus.PUT_OK and put.knowledge is ProducerKnowledge.REFUSED:
            yield _broken("a refused put is stored", found.file, found.position, "refused put", "none", put.name)
        if not at_home:
            elsewhere.add(put.name)
    yield from _hole_violations(evidence, elsewhere)


def _may_be_misfiled(evidence: Evidence, put: PutEntry, found: FoundRecord) -> bool:
    return put.place[0] == found.record.topic and may_be_misfiled(found.position, tears=evidence.ledger.tears)


def _differences_of_bookkeeping(evidence: Evidence, found: FoundRecord) -> Iterable[FieldDifference]:
    """Return the wrong fields of the store's own record: an op, or a half message that the store put back."""
    if found.record.topic == OP_TOPIC:
        return differences_of_op(found.record, found.body, clock_is_true=not evidence.ledger.clock_set_back)
    put = evidence.ledger.put_named_by(found.record)
    # The TX check reports a record without a put.
    return () if put is None else put.differences(found.record, tears=evidence.ledger.tears)


def _differences_of_returned(evidence: Evidence, put: PutEntry, found: FoundRecord) -> Iterable[FieldDifference]:
    """The storeHost of a returned message is the address of the broker that received the request.

    A message that a consumer sent itself has the born time and host of this send, also after further retries. `retries`
    compares the number of retries with the requests.
    """
    head, is_committed = found.record.head, put.waiting_place is not None and put.delay_ms is None
    address, port = head.store_host[:-4], int.from_bytes(head.store_host[-4:], "big")
    again = max(put.content.reconsume_times + 1, 1, head.reconsume_times)
    sent = put.content._replace(reconsume_times=again, store_host=(address, port))
    born_ms, born_address = head.born_timestamp_ms, head.born_host[:-4]
    is_sent = evidence.ledger.returned.has_send(put.name, (born_ms, born_address))
    if is_sent:
        sent, is_committed = sent._replace(born_timestamp_ms=born_ms, born_host=(born_address, 0), sys_flag=0), False
        sent = sent._replace(reconsume_times=head.reconsume_times)
    if is_sent or not put.knows_port:
        sent = sent.with_port_of(found.record)
    tears = evidence.ledger.tears
    return differences(found.record, sent, sent.head(put.body), is_committed=is_committed, tears=tears)


def _changed_record_violations(found: FoundRecord, differences: Iterable[FieldDifference]) -> Iterator[Violation]:
    for offset, field, expected, there in differences:
        summary, position = "a record that differs from its put", found.position + offset
        yield _broken(summary, found.file, position, field, expected, there)


def _is_at_answered_offset(evidence: Evidence, put: PutEntry) -> bool:
    if put.physical_offset is None:
        return False
    found = evidence.store.by_offset.get(put.physical_offset)
    if found is None:
        return False
    return found.record.properties == put.properties or evidence.ledger.put_of(found.record) is put


def _hole_violations(evidence: Evidence, elsewhere: set[str]) -> Iterator[Violation]:
    store, gone, found_at = evidence.store, evidence.ledger.lost_puts, evidence.store.by_offset.get
    for put in evidence.ledger.puts:
        at = put.physical_offset
        if at is None:
            continue
        found = found_at(at)  # nearly every put is found, so this saves a call
        if found is not None and found.record.properties == put.properties:
            continue
        if put.name in elsewhere or put.name in gone:
            continue
        within = store.min_offset <= at and at + put.record_bytes <= store.max_offset
        if within and not _is_at_answered_offset(evidence, put):
            yield _broken("a record is missing in the log", "commitlog", at, "appended record", put.name, "another")
