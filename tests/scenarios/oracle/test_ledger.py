"""The ledger of requests and answers."""

import pytest

from tests.fixtures import make_put
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger, Pull
from tornlog.scenarios.oracle.put_entry import ProducerKnowledge
from tornlog.store.formats.messages import PutMessageStatus


@pytest.mark.parametrize(
    ("status", "knowledge"),
    [
        (None, ProducerKnowledge.UNKNOWN),
        (PutMessageStatus.PUT_OK, ProducerKnowledge.ACKNOWLEDGED),
        (PutMessageStatus.FLUSH_DISK_TIMEOUT, ProducerKnowledge.UNKNOWN),
        (PutMessageStatus.UNKNOWN_ERROR, ProducerKnowledge.UNKNOWN),
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, ProducerKnowledge.REFUSED),
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, ProducerKnowledge.REFUSED),
        (PutMessageStatus.MESSAGE_ILLEGAL, ProducerKnowledge.REFUSED),
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, ProducerKnowledge.REFUSED),
        (PutMessageStatus.OS_PAGECACHE_BUSY, ProducerKnowledge.REFUSED),
    ],
)
def test_a_put_status_makes_a_put_acknowledged_refused_or_unknown(
    status: PutMessageStatus | None, knowledge: ProducerKnowledge
) -> None:
    assert make_put("m", status=status).knowledge is knowledge


def test_only_put_ok_counts_as_acknowledged() -> None:
    known = {status: make_put("m", status=status).knowledge for status in PutMessageStatus}
    assert [status for status, what in known.items() if what is ProducerKnowledge.ACKNOWLEDGED] == [
        PutMessageStatus.PUT_OK
    ]


def test_a_new_life_drops_seen_messages_but_keeps_puts() -> None:
    ledger = Ledger()
    ledger.begin_life()
    first = make_put("first")
    ledger.record_request(first)
    ledger.consumed.append(ConsumedMessage("T", 0, 0, first))
    ledger.pulls.append(Pull("T", 0, None))
    assert ledger.puts_of_this_life() == [first]

    ledger.begin_life()
    second = make_put("second")
    ledger.record_request(second)
    assert ledger.puts == [first, second]
    assert ledger.puts_of_this_life() == [second]
    assert ledger.consumed == []
    assert ledger.pulls == []
    assert ledger.by_properties == {first.properties: first, second.properties: second}


def test_a_second_put_with_equal_properties_is_refused_by_the_ledger() -> None:
    ledger = Ledger()
    ledger.record_request(make_put("m"))
    with pytest.raises(AssertionError):
        ledger.record_request(make_put("m"))


def test_promises_keep_the_order_in_which_they_were_first_made() -> None:
    ledger = Ledger()
    puts = [make_put(name) for name in ("c", "a", "b")]
    for put in [*puts, puts[1]]:
        ledger.promise(put)
    assert list(ledger.promised) == ["c", "a", "b"]


def test_the_log_end_at_the_start_of_a_life_assigns_copies_to_lives() -> None:
    ledger = Ledger()
    for log_end in (0, 500, 300):  # the third life found a shorter log after a power cut
        ledger.begin_delivery(log_end, {})
    assert [ledger.delivery_of(at) for at in (0, 299, 300, 499, 900)] == [0, 0, 2, 2, 2]


def test_the_recorded_initial_progress_does_not_change_during_delivery() -> None:
    ledger, offsets = Ledger(), {1: 1}
    ledger.begin_delivery(0, offsets)
    offsets[1] = 2
    assert ledger.deliveries[0].offsets == {1: 1}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("copied", [True, False])
def test_a_consumed_message_is_durable_if_its_record_or_copy_is(own: bool, copied: bool) -> None:
    put = make_put("m")
    put.is_durable = own
    assert ConsumedMessage("T", 0, 0, put, None, copied).is_durable is own
    assert ConsumedMessage("T", 0, 0, put, 400, copied).is_durable is copied


def test_a_received_record_reveals_the_offset_of_its_unanswered_put() -> None:
    put = make_put("m")
    put.physical_offset = None
    assert ConsumedMessage("T", 0, 0, put).physical_offset is None
    assert ConsumedMessage("T", 0, 0, put, given_at=300).physical_offset == 300
    assert ConsumedMessage("T", 0, 0, put, 400, given_at=300).physical_offset == 399
    put.physical_offset = 100
    assert ConsumedMessage("T", 0, 0, put, given_at=300).physical_offset == 100


def test_removing_a_queue_restarts_finished_consumers_at_once_and_others_at_their_next_pull() -> None:
    ledger = Ledger()
    over, going, other = (Pull(topic, 0, None, [], 0, 2) for topic in ("T", "T", "U"))
    over.is_over = other.is_over = True
    ledger.pulls += [over, going, other]
    ledger.record_queue_end(("T", 0))

    assert [pull.end_offset for pull in ledger.pulls] == [0, 2, 2]
    assert ledger.queue_ends["T", 0] == 1
