"""What users asked for and what they may conclude."""

from collections.abc import Callable

import pytest

from tornlog.scenarios.ledger import Knowledge, Ledger, Pull, PutEntry, Seen
from tornlog.store.put_result import PutMessageStatus


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


def test_every_answer_there_is_leaves_some_knowledge(make_put: Callable[..., PutEntry]) -> None:
    known = {status: make_put("m", status=status).knowledge for status in PutMessageStatus}
    assert [status for status, what in known.items() if what is Knowledge.ACKNOWLEDGED] == [
        PutMessageStatus.PUT_OK
    ]


def test_a_new_life_forgets_what_was_seen_but_not_what_was_put(make_put: Callable[..., PutEntry]) -> None:
    ledger = Ledger()
    ledger.begin_life()
    first = make_put("first")
    ledger.ask(first)
    ledger.seen.append(Seen("T", 0, 0, first))
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
