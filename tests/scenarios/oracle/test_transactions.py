"""Transactions: the copies that must survive, by the rows of the table of promises."""

from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.oracle import guarantees
from tornlog.scenarios.oracle.transaction_log import TransactionLog

History = Any
POWER_CUT, KILL = PROFILES["strict-posix"], PROFILES["process-kill"]


@pytest.fixture
def committed(history: History) -> History:
    """Two commits in the present life: one answered OK, the other without wait; copies end at 1000 and 2000."""
    for name in ("waited", "hasty"):
        history.prepare(name)
        history.decide(name).copy_end = history.copy(name).record.physical_offset + 500
    waited, _ = history.evidence.ledger.transactions.decisions
    waited.is_acknowledged = True
    return history


def kept_copies(history: History) -> dict[str, list[int]]:
    by_name = history.evidence.ledger.transactions.by_name
    return {name: list(one.copies) for name, one in by_name.items() if one.copies}


@pytest.mark.parametrize(
    ("profile", "flushed_where", "committed_where", "sync_flush", "expected"),
    [
        (KILL, 0, None, True, {"waited": [1000], "hasty": [2000]}),
        (KILL, 0, None, False, {"waited": [1000], "hasty": [2000]}),
        (KILL, 0, 1500, False, {"waited": [1000]}),
        (POWER_CUT, 0, None, True, {"waited": [1000]}),
        (POWER_CUT, 0, None, False, {}),
        (POWER_CUT, 1000, None, False, {"waited": [1000]}),
        (POWER_CUT, 2000, None, True, {"waited": [1000], "hasty": [2000]}),
    ],
)
def test_a_crash_must_keep_every_promised_transaction_copy(
    committed: History,
    profile: Any,
    flushed_where: int,
    committed_where: int | None,
    sync_flush: bool,
    expected: dict[str, list[int]],
) -> None:
    transactions = committed.evidence.ledger.transactions
    transactions.note_crash(
        flushed_where, committed_where, sync_flush=sync_flush, cache_survives=profile.page_cache_survives
    )
    assert kept_copies(committed) == expected


def test_a_clean_stop_makes_every_transaction_copy_durable(committed: History) -> None:
    ledger = committed.evidence.ledger
    guarantees.note_stop(ledger)
    ledger.begin_life()
    guarantees.note_crash(ledger, QUIET_PLAN, POWER_CUT, 0)
    assert kept_copies(committed) == {"waited": [1000], "hasty": [2000]}


def test_transaction_records_in_the_page_cache_only_may_be_lost_in_the_next_power_cut(committed: History) -> None:
    ledger = committed.evidence.ledger
    guarantees.note_crash(ledger, QUIET_PLAN, KILL, 0)
    ledger.begin_life()
    guarantees.note_crash(ledger, QUIET_PLAN, POWER_CUT, 0)
    assert kept_copies(committed) == {}


@pytest.mark.parametrize("durable", [True, False])
def test_recovered_transaction_records_stay_and_recovered_decisions_are_settled(
    committed: History, durable: bool
) -> None:
    ledger, store = committed.evidence.ledger, committed.evidence.store
    committed.op(1)
    guarantees.note_recovery(ledger, store, durable=durable)
    assert kept_copies(committed) == {"waited": [1000], "hasty": [2000]}
    settled = [ledger.transactions.by_name[name].settled_at for name in ("waited", "hasty")]
    assert settled == [None, 0]
    ledger.begin_life()
    guarantees.note_crash(ledger, QUIET_PLAN, POWER_CUT, 0)
    assert kept_copies(committed) == ({"waited": [1000], "hasty": [2000]} if durable else {})


def test_log_damage_excuses_lost_later_copies_and_missing_checks(committed: History) -> None:
    ledger = committed.evidence.ledger
    guarantees.note_stop(ledger)
    guarantees.note_damage(ledger, 1999)
    assert kept_copies(committed) == {"waited": [1000]}
    assert all(one.may_be_forgotten for one in ledger.transactions.by_name.values())


def test_records_of_a_log_are_grouped_by_transaction(committed: History) -> None:
    committed.put_back("waited", 1)
    committed.op(0)
    committed.op(2)
    log = TransactionLog.read(committed.evidence.ledger, committed.evidence.store)
    waited, hasty = log.by_name["waited"], log.by_name["hasty"]
    assert [len(found) for found in (waited.put_back, waited.ops, waited.copies)] == [1, 2, 1]
    assert (waited.decided, waited.is_decided, waited.is_settled) == ({0, 2}, True, True)
    assert (hasty.is_decided, hasty.is_settled) == (False, False)
    assert log.unexplained == []


def test_an_op_message_settles_a_put_back_half_message_only_if_it_names_the_newest_copy(history: History) -> None:
    history.prepare("m")
    history.put_back("m", 1)
    history.put_back("m", 2)
    for half_offset, settled in ((1, False), (2, True)):
        history.op(half_offset)
        log = TransactionLog.read(history.evidence.ledger, history.evidence.store)
        assert (log.by_name["m"].is_decided, log.by_name["m"].is_settled) == (False, settled)
