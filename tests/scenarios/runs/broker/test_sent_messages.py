"""Records are held against what was sent: by whom they may be stored, and what else they have."""

from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord
from tornlog.scenarios.runs.broker.sent_messages import Send, body_of, check_unchanged, is_of_users, name_in

MASTER, HEIR = (bytes((10, 0, 0, 1)), 10911), (bytes((10, 0, 0, 2)), 10911)
BODY = body_of("m1", 40)


def differing(*, stored_by: tuple[bytes, int] = MASTER, born_ms: int = 7, sent_ms: tuple[int, ...] = (7,)) -> list[str]:
    """Return the fields in which a message that is found, and was sent at some times, is not as it was sent."""
    given = PLAIN._replace(born_timestamp_ms=born_ms, store_host=stored_by)
    record = LogRecord(0, 100, "T0", 0, 0, 0, 0, b"", given.head(BODY))
    send = Send("m1", BODY, given=PLAIN, born_ms=list(sent_ms))
    found = check_unchanged(send, FoundRecord(record, "log", 0, BODY), (MASTER, HEIR), tears=False)
    return [violation.field for violation in found]


def test_records_may_be_of_the_broker_or_of_the_slave_that_took_its_place() -> None:
    assert differing() == differing(stored_by=HEIR) == []
    assert differing(stored_by=(b"\7" * 4, 10911)) == ["storeHost"]


def test_a_record_was_born_when_its_message_was_sent_once() -> None:
    assert differing(born_ms=8, sent_ms=(7, 8)) == []
    assert differing(born_ms=8, sent_ms=()) == [], "nobody says when"
    assert differing(born_ms=9, sent_ms=(7, 8)) == ["bornTimestamp"]


def test_a_message_is_known_by_its_body() -> None:
    assert name_in(BODY) == name_in(body_of("m1", 0)) == "m1"
    assert len(BODY) == 40
    assert [is_of_users(topic) for topic in ("T0", "T12", "T", "%RETRY%T0")] == [True, True, False, False]
