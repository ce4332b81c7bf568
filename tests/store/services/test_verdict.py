import pytest

from tornlog.store.formats.half_message import HALF_TOPIC, HalfMessage
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.messages import LOOPBACK_BROKER
from tornlog.store.formats.properties import encode_properties
from tornlog.store.services.transaction_check import HalfMessageVerdict, TransactionConfig, verdict_on

CONFIG = TransactionConfig(transaction_timeout_ms=6_000, transaction_check_max=3)
BORN_MS = 1_000_000
DAY_MS = 86_400_000


def verdict_of(age_ms: int, **properties: str) -> HalfMessageVerdict:
    host = LOOPBACK_BROKER
    record = MessageRecord(
        0, 0, 0, 0, 0, 9, 0, 0, BORN_MS, host, 0, host, 0, 0, b"", HALF_TOPIC, encode_properties(properties)
    )  # fmt: skip
    return verdict_on(HalfMessage.from_record(record), BORN_MS + age_ms, CONFIG, DAY_MS)


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (-1, HalfMessageVerdict.DUE),  # otherwise a client whose clock is ahead would never be asked
        (0, HalfMessageVerdict.TOO_YOUNG),
        (5_999, HalfMessageVerdict.TOO_YOUNG),
        (6_000, HalfMessageVerdict.DUE),
        (DAY_MS, HalfMessageVerdict.DUE),
        (DAY_MS + 1, HalfMessageVerdict.GIVE_UP),
    ],
)
def test_a_half_message_is_due_between_the_timeout_and_its_retention_time(
    age_ms: int, expected: HalfMessageVerdict
) -> None:
    assert verdict_of(age_ms) is expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [("2", HalfMessageVerdict.DUE), ("3", HalfMessageVerdict.GIVE_UP), ("?", HalfMessageVerdict.DUE)],
)
def test_a_half_message_with_too_many_checks_is_given_up(times: str, expected: HalfMessageVerdict) -> None:
    assert verdict_of(7_000, TRANSACTION_CHECK_TIMES=times) is expected


def test_a_young_half_message_with_too_many_checks_is_given_up() -> None:
    assert verdict_of(10, TRANSACTION_CHECK_TIMES="3") is HalfMessageVerdict.GIVE_UP


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (-30_001, HalfMessageVerdict.DUE),  # otherwise a message with a corrupt born time would be put back forever
        (-30_000, HalfMessageVerdict.IMMUNE),
        (0, HalfMessageVerdict.IMMUNE),
        (29_999, HalfMessageVerdict.IMMUNE),
        (30_000, HalfMessageVerdict.DUE),
    ],
)
def test_check_immunity_replaces_the_transaction_timeout(age_ms: int, expected: HalfMessageVerdict) -> None:
    assert verdict_of(age_ms, CHECK_IMMUNITY_TIME_IN_SECONDS="30") is expected


def test_an_invalid_check_immunity_is_ignored() -> None:
    assert verdict_of(5_999, CHECK_IMMUNITY_TIME_IN_SECONDS="soon") is HalfMessageVerdict.TOO_YOUNG
