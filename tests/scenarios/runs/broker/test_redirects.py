"""Redirects: the broker that an answer to a pull suggests for the next pull."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.runs.broker.redirects import LogState, PullAnswer, Redirects, check_slave_answer
from tornlog.scenarios.runs.broker.routes import BROKER, BrokerAddress
from tornlog.store.broker.requests import ResponseCode

MASTER, QUEUE = BrokerAddress(BROKER, 0, "10.0.0.1:10911"), ("T0", 0)
FOUND, NOT_FOUND = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND
MEMORY_BYTES = 200


def store_with(log_end: int) -> Any:
    """Return a store whose log has been dispatched."""
    config = SimpleNamespace(physical_memory_bytes=MEMORY_BYTES, access_message_in_memory_max_ratio=100)
    dispatch = SimpleNamespace(readable_limit=lambda: log_end, reput_from=SimpleNamespace(get=lambda: log_end))
    return SimpleNamespace(config=config, dispatch=dispatch)


def answer(code: int, suggested_id: int, *, following: int = 1, max_offset: int = 1) -> PullAnswer:
    record = LogRecord(0, 100, *QUEUE, 0, 0, 0, b"", None)  # type: ignore[arg-type]
    return PullAnswer(code, suggested_id, 0, following, max_offset, record if code == FOUND else None)


def count(
    plan: Plan,
    given: PullAnswer,
    log_end: int,
    *,
    grew: bool = False,
    is_read: bool = True,
    nexts: tuple[int, ...] = (),
) -> int:
    """Return the number of violations. nexts: log offsets of the puts with the queue offset of the next pull."""
    plan = plan.replace(cluster={"slaves": 1}, broker={"serves": True, "slaves_are_read": is_read})
    store = store_with(log_end)
    redirects = Redirects(plan, lambda _: store)
    before: LogState | None = redirects.log_state(MASTER)
    if grew:
        assert before is not None
        before = before._replace(end=log_end - 1)
    ledger = Ledger()
    for offset in nexts:
        put = PutEntry(f"m{offset}", *QUEUE, "", b"", b"", True, 0)
        put.physical_offset, put.queue_offset = offset, given.following
        ledger.puts.append(put)
    return len(list(redirects.check_answer(ledger, QUEUE, MASTER, given, before)))


@pytest.mark.parametrize(("log_end", "expected_id"), [(MEMORY_BYTES, 0), (MEMORY_BYTES + 1, 1)])
def test_a_consumer_that_lags_by_more_than_the_memory_is_sent_to_a_slave(log_end: int, expected_id: int) -> None:
    assert count(QUIET_PLAN, answer(FOUND, expected_id), log_end) == 0
    assert count(QUIET_PLAN, answer(FOUND, 1 - expected_id), log_end) == 1


def test_a_lag_that_is_not_known_excuses_either_broker() -> None:
    assert count(QUIET_PLAN, answer(FOUND, 0), 1000, grew=True) == 0
    assert count(QUIET_PLAN, answer(FOUND, 0, max_offset=2), 1000) == 0


def test_the_newest_of_several_messages_with_the_next_queue_offset_counts() -> None:
    assert count(QUIET_PLAN, answer(FOUND, 0, max_offset=2), 1000, nexts=(100,)) == 1
    assert count(QUIET_PLAN, answer(FOUND, 0, max_offset=2), 1000, nexts=(100, 900)) == 0


@pytest.mark.parametrize(("code", "is_read"), [(NOT_FOUND, True), (FOUND, False)])
def test_only_an_answer_with_messages_suggests_a_slave_that_is_read(code: ResponseCode, *, is_read: bool) -> None:
    assert count(QUIET_PLAN, answer(code, 0), 1000, is_read=is_read) == 0
    assert count(QUIET_PLAN, answer(code, 1), 1000, is_read=is_read) == 1


def test_a_slave_without_the_next_message_keeps_the_offset() -> None:
    stays, moves = (answer(NOT_FOUND, 0, following=following) for following in (0, 5))
    moved = answer(ResponseCode.PULL_OFFSET_MOVED, 0, following=0)
    counts = [
        len(list(check_slave_answer(Ledger(), each, may_skip=False, is_read=True))) for each in (stays, moves, moved)
    ]
    assert counts == [0, 1, 1]
    assert list(check_slave_answer(Ledger(), moves, may_skip=True, is_read=True)) == []


def test_a_slave_that_may_not_be_read_keeps_the_offset_of_a_filtered_consumer() -> None:
    moves = answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 0, following=5)
    assert len(list(check_slave_answer(Ledger(), moves, may_skip=True, is_read=False))) == 1
