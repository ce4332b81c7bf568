"""The ledger of requests and answers."""

from collections.abc import Callable

import pytest

from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger, Pull
from tornlog.scenarios.oracle.put_entry import Knowledge, PutEntry
from tornlog.store.formats.messages import PutMessageStatus


@pytest.mark.parametrize(
    ("status", "knowledge"),
    [
        (None, Knowledge.UNKNOWN),
        (PutMessageStatus.PUT_OK, Knowledge.ACKNOWLEDGED),
        (PutMessageStatus.FLUSH_DISK_TIMEOUT, Knowledge.UNKNOWN),
        (PutMessageStatus.UNKNOWN_ERROR, Knowledge.UNKNOWN),
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, Knowledge.REFUSED),
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, Knowledge.REFUSED),
        (PutMessageStatus.MESSAGE_ILLEGAL, Knowledge.REFUSED),
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, Knowledge.REFUSED),
        (PutMessageStatus.OS_PAGECACHE_BUSY, Knowledge.REFUSED),
    ],
)
def test_an_answer_is_yes_no_or_unknown(
    make_put: Callable[..., PutEntry], status: PutMessageStatus | None, knowledge: Knowledge
) -> None:
    assert make_put("m", status=status).knowledge is knowledge


def test_every_put_status_maps_to_a_knowledge(make_put: Callable[..., PutEntry]) -> None:
    known = {status: make_put("m", status=status).knowledge for status in PutMessageStatus}
    assert [status for status, what in known.items() if what is Knowledge.ACKNOWLEDGED] == [PutMessageStatus.PUT_OK]


def test_a_new_life_drops_seen_messages_but_keeps_puts(make_put: Callable[..., PutEntry]) -> None:
    ledger = Ledger()
    ledger.begin_life()
    first = make_put("first")
    ledger.ask(first)
    ledger.seen.append(ConsumedMessage("T", 0, 0, first))
    ledger.pulls.append(Pull("T", 0, None))
    assert ledger.puts_of_this_life() == [first]

    ledger.begin_life()
    second = make_put("second")
    ledger.ask(second)
    assert ledger.puts == [first, second]
    assert ledger.puts_of_this_life() == [second]
    assert ledger.seen == []
    assert ledger.pulls == []
    assert ledger.by_properties == {first.properties: first, second.properties: second}


def test_two_puts_cannot_have_the_same_properties(make_put: Callable[..., PutEntry]) -> None:
    ledger = Ledger()
    ledger.ask(make_put("m"))
    with pytest.raises(AssertionError):
        ledger.ask(make_put("m"))


def test_promises_keep_the_order_in_which_they_were_first_made(make_put: Callable[..., PutEntry]) -> None:
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
def test_a_seen_message_is_as_durable_as_its_record(make_put: Callable[..., PutEntry], own: bool, copied: bool) -> None:
    put = make_put("m")
    put.is_durable = own
    assert ConsumedMessage("T", 0, 0, put, None, copied).is_durable is own
    assert ConsumedMessage("T", 0, 0, put, 400, copied).is_durable is copied


def test_a_received_record_has_the_offset_of_its_unanswered_put(
    make_put: Callable[..., PutEntry],
) -> None:
    put = make_put("m")
    put.physical_offset = None
    assert ConsumedMessage("T", 0, 0, put).physical_offset is None
    assert ConsumedMessage("T", 0, 0, put, given_at=300).physical_offset == 300
    assert ConsumedMessage("T", 0, 0, put, 400, given_at=300).physical_offset == 399
    put.physical_offset = 100
    assert ConsumedMessage("T", 0, 0, put, given_at=300).physical_offset == 100


def test_a_removed_queue_restarts_completed_walks_at_once_and_others_at_their_next_pull() -> None:
    ledger = Ledger()
    over, going, other = (Pull(topic, 0, None, [], 0, 2) for topic in ("T", "T", "U"))
    over.is_over = other.is_over = True
    ledger.pulls += [over, going, other]
    ledger.end_queue(("T", 0))

    assert [pull.end_offset for pull in ledger.pulls] == [0, 2, 2]
    assert ledger.queue_ends["T", 0] == 1
