"""The table of promises, row by row, and the effects of a recovery."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, make_put
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle import guarantees
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import dur, prefix
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry, WaitingPlace
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord, RecoveredStore
from tornlog.store.formats.messages import PutMessageStatus

POWER_CUTS = ("ext4-ordered", "strict-posix")
CACHE_SURVIVES = ("process-kill", "nothing-lost")


@pytest.fixture
def ledger() -> Ledger:
    """One life with a put of each kind, 200 bytes apart in the log. Only the first is before the flushed position."""
    ledger = Ledger()
    ledger.begin_life()
    ok, timeout = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT
    ledger.record_request(make_put("flushed", at=0, status=timeout))
    ledger.record_request(make_put("waited", at=200, status=ok))
    ledger.record_request(make_put("did not wait", at=400, status=ok, wait=False))
    ledger.record_request(make_put("timed out", at=600, status=timeout))
    ledger.record_request(make_put("refused", status=PutMessageStatus.MESSAGE_ILLEGAL))
    ledger.record_request(make_put("in flight"))
    return ledger


STORED = ["flushed", "waited", "did not wait", "timed out"]
FLUSHED_WHERE = 200


def recovered_store(puts: Sequence[PutEntry]) -> RecoveredStore:
    """Return a store with only these puts."""
    found = RecoveredStore(min_offset=0)
    for put in puts:
        assert put.physical_offset is not None
        record = LogRecord(
            put.physical_offset, put.record_bytes, put.topic, put.queue_id, 0, 0, 0, put.properties, put.head
        )
        entry = FoundRecord(record, "commitlog/0", put.physical_offset, put.body)
        found.records.append(entry)
        found.by_offset[put.physical_offset] = entry
        found.max_offset = put.physical_offset + put.record_bytes
    return found


def puts_named(ledger: Ledger, *names: str) -> list[PutEntry]:
    return [put for put in ledger.puts if put.name in names]


def test_a_clean_stop_promises_every_stored_put(ledger: Ledger) -> None:
    guarantees.note_stop(ledger)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, QUIET_PLAN, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == STORED


@pytest.mark.parametrize("sync_flush", [True, False])
@pytest.mark.parametrize("profile", CACHE_SURVIVES)
def test_after_a_process_kill_every_answered_put_is_promised(ledger: Ledger, profile: str, sync_flush: bool) -> None:
    plan = replace(QUIET_PLAN, sync_flush=sync_flush)
    guarantees.note_crash(ledger, plan, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == STORED


@pytest.mark.parametrize("profile", POWER_CUTS)
def test_after_a_power_cut_under_sync_flush_puts_that_waited_or_were_flushed_are_promised(
    ledger: Ledger, profile: str
) -> None:
    guarantees.note_crash(ledger, QUIET_PLAN, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == ["flushed", "waited"]


@pytest.mark.parametrize("profile", POWER_CUTS)
def test_after_a_power_cut_under_async_flush_only_flushed_puts_are_promised(ledger: Ledger, profile: str) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == ["flushed"]


def test_a_partly_flushed_record_is_not_promised_after_a_power_cut(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    end = ledger.puts[0].record_bytes
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=end - 1)
    assert list(ledger.promised) == []
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=end)
    assert list(ledger.promised) == ["flushed"]


def test_a_power_cut_after_a_process_kill_ends_promises_for_data_in_the_page_cache_only(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == []


def test_puts_recovered_between_a_kill_and_a_power_cut_stay_promised(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered_store(puts_named(ledger, *STORED)), durable=True)
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == STORED


def test_a_recovery_whose_sync_may_have_failed_makes_no_put_durable(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered_store(puts_named(ledger, *STORED)), durable=False)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == []


def test_an_unanswered_put_that_a_recovery_finds_is_promised_from_then_on(ledger: Ledger) -> None:
    lost_answer = puts_named(ledger, "in flight")[0]
    lost_answer.physical_offset = 800  # known from the disk, not from an answer
    guarantees.note_recovery(ledger, recovered_store([lost_answer]), durable=True)
    assert list(ledger.promised) == ["in flight"]
    assert lost_answer.queue_offset == 0


def test_a_put_that_a_recovery_does_not_find_must_not_reappear(ledger: Ledger) -> None:
    guarantees.note_crash(ledger, QUIET_PLAN, PROFILES["strict-posix"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered_store(puts_named(ledger, "flushed")), durable=True)
    assert list(ledger.promised) == ["flushed"]
    assert sorted(ledger.lost_puts) == ["did not wait", "in flight", "refused", "timed out", "waited"]

    back = recovered_store(puts_named(ledger, "flushed", "timed out"))
    violations = list(prefix.check_log_prefix(Evidence(ledger, back)))
    assert [(violation.field, violation.found) for violation in violations] == [("resurrected record", "timed out")]
    guarantees.note_recovery(ledger, back, durable=True)
    assert "timed out" in ledger.lost_puts


def test_a_lost_put_whose_client_still_waits_has_no_known_offset(ledger: Ledger) -> None:
    waiting = puts_named(ledger, "in flight")[0]
    waiting.physical_offset, waiting.over_in = 800, None
    ledger.promise(waiting)  # retention has removed its record since
    guarantees.note_recovery(ledger, recovered_store(puts_named(ledger, *STORED)), durable=True)

    assert "in flight" not in ledger.promised

    assert waiting.physical_offset is None, "the new life may store another record at 800, and this put elsewhere"
    assert "in flight" not in ledger.lost_puts


def test_a_put_lost_in_a_recovery_is_reported_as_missing_only_once(ledger: Ledger) -> None:
    guarantees.note_crash(ledger, QUIET_PLAN, PROFILES["strict-posix"], FLUSHED_WHERE)
    less = recovered_store(puts_named(ledger, "flushed"))
    assert [violation.expected for violation in dur.check_durable_puts(Evidence(ledger, less))] == ["waited"]
    guarantees.note_recovery(ledger, less, durable=True)
    assert list(dur.check_durable_puts(Evidence(ledger, less))) == []


def test_under_sync_flush_consumed_messages_survive_any_crash(ledger: Ledger) -> None:
    ledger.consumed = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(puts_named(ledger, *STORED))]
    seen = list(ledger.consumed)
    guarantees.note_crash(ledger, QUIET_PLAN, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert ledger.kept_messages == seen


def test_under_async_flush_only_durable_consumed_messages_survive_a_power_cut(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    ledger.consumed = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(puts_named(ledger, *STORED))]
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert [seen.put.name for seen in ledger.kept_messages] == ["flushed"]


def test_under_async_flush_consumed_messages_survive_a_kill_but_not_a_power_cut_after_it(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    ledger.consumed = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(puts_named(ledger, *STORED))]
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    assert [seen.put.name for seen in ledger.kept_messages] == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert ledger.kept_messages == []


def test_a_consumed_copy_survives_a_power_cut_only_if_the_copy_is_durable(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    (put,) = puts_named(ledger, "flushed")
    ledger.consumed = [ConsumedMessage("T", 0, number, put, copy_end) for number, copy_end in enumerate((200, 201))]
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert [seen.copy_end for seen in ledger.kept_messages] == [200]


def test_a_consumed_copy_made_durable_by_a_stop_or_a_recovery_survives(ledger: Ledger) -> None:
    plan = replace(QUIET_PLAN, sync_flush=False)
    (put,) = puts_named(ledger, "flushed")
    for end in (guarantees.note_stop, lambda ledger: kill_and_recover(ledger, plan, put)):
        ledger.kept_messages, ledger.consumed = [], [ConsumedMessage("T", 0, 0, put, 900)]
        end(ledger)
        ledger.begin_life()
        guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
        assert [seen.copy_end for seen in ledger.kept_messages] == [900]


def kill_and_recover(ledger: Ledger, plan: Plan, put: PutEntry) -> None:
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], 0)
    guarantees.note_recovery(ledger, recovered_store([put]), durable=True)


def test_log_damage_ends_promises_for_later_copies_and_excuses_their_deliveries(ledger: Ledger) -> None:
    (put,) = puts_named(ledger, "flushed")
    ledger.promise(put)
    ledger.kept_messages = [ConsumedMessage("T", 0, number, put, end) for number, end in enumerate((500, 501))]
    guarantees.note_damage(ledger, 500)
    assert [seen.copy_end for seen in ledger.kept_messages] == [500]

    for number in range(3):
        delayed = make_put(f"delayed {number}")
        delayed.waiting_place, delayed.queue_offset = WaitingPlace(("SCHEDULE_TOPIC_XXXX", 1), 1000), number
        ledger.record_request(delayed)
    guarantees.note_damaged_copies(ledger, {1: 9, 2: 2})
    assert ledger.delivered_into_damage == {"delayed 0", "delayed 1"}


@pytest.mark.parametrize("profile", CACHE_SURVIVES)
def test_with_a_transient_pool_committed_and_consumed_puts_survive_a_process_kill(ledger: Ledger, profile: str) -> None:
    plan = QUIET_PLAN.replace(sync_flush=False, memory={"transient_pool": True})
    flushed, waited, *_ = ledger.puts
    ledger.consumed = [ConsumedMessage("T", 0, 0, flushed)]
    committed_where = (waited.physical_offset or 0) + waited.record_bytes
    guarantees.note_crash(ledger, plan, PROFILES[profile], 0, committed_where - 1)
    assert list(ledger.promised) == ["flushed"]
    guarantees.note_crash(ledger, plan, PROFILES[profile], 0, committed_where)
    assert list(ledger.promised) == ["flushed", "waited"]
    assert {seen.put.name for seen in ledger.kept_messages} == {"flushed"}


def test_with_a_transient_pool_only_flushed_puts_survive_a_power_cut(ledger: Ledger) -> None:
    plan = QUIET_PLAN.replace(sync_flush=False, memory={"transient_pool": True})
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE, 800)
    assert list(ledger.promised) == ["flushed"]
