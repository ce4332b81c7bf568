"""The table of promises, row by row, and the effects of a recovery."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle import guarantees
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import dur, prefix
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger
from tornlog.scenarios.oracle.put_entry import Detour, PutEntry
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord, RecoveredStore
from tornlog.store.formats.messages import PutMessageStatus

POWER_CUTS = ("ext4-ordered", "strict-posix")
CACHE_SURVIVES = ("process-kill", "nothing-lost")


@pytest.fixture
def ledger(make_put: Callable[..., PutEntry]) -> Ledger:
    """One life with a put of each kind, 200 bytes apart in the log. Only the first is before the flushed position."""
    ledger = Ledger()
    ledger.begin_life()
    ok, timeout = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT
    ledger.ask(make_put("flushed", at=0, status=timeout))
    ledger.ask(make_put("waited", at=200, status=ok))
    ledger.ask(make_put("did not wait", at=400, status=ok, wait=False))
    ledger.ask(make_put("timed out", at=600, status=timeout))
    ledger.ask(make_put("refused", status=PutMessageStatus.MESSAGE_ILLEGAL))
    ledger.ask(make_put("in flight"))
    return ledger


STORED = ["flushed", "waited", "did not wait", "timed out"]
FLUSHED_WHERE = 200


def recovered(puts: Sequence[PutEntry]) -> RecoveredStore:
    """Return a store with only these puts."""
    found = RecoveredStore(min_offset=0)
    for put in puts:
        assert put.physical_offset is not None
        record = LogRecord(
            put.physical_offset,
            put.record_bytes,
            put.topic,
            put.queue_id,
            0,
            0,
            0,
            put.properties,
            put.head,
        )
        entry = FoundRecord(record, "commitlog/0", put.physical_offset, put.body)
        found.records.append(entry)
        found.by_offset[put.physical_offset] = entry
        found.max_offset = put.physical_offset + put.record_bytes
    return found


def named(ledger: Ledger, *names: str) -> list[PutEntry]:
    return [put for put in ledger.puts if put.name in names]


def test_a_clean_stop_promises_every_put_that_was_stored_for_good(ledger: Ledger, quiet_plan: Plan) -> None:
    guarantees.note_stop(ledger)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, quiet_plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == STORED


@pytest.mark.parametrize("sync_flush", [True, False])
@pytest.mark.parametrize("profile", CACHE_SURVIVES)
def test_a_process_kill_takes_no_put_that_was_answered(
    ledger: Ledger, quiet_plan: Plan, profile: str, sync_flush: bool
) -> None:
    plan = replace(quiet_plan, sync_flush=sync_flush)
    guarantees.note_crash(ledger, plan, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == STORED


@pytest.mark.parametrize("profile", POWER_CUTS)
def test_a_power_cut_under_sync_flush_takes_nothing_that_was_waited_for_or_is_below_the_flushed_position(
    ledger: Ledger, quiet_plan: Plan, profile: str
) -> None:
    guarantees.note_crash(ledger, quiet_plan, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == ["flushed", "waited"]


@pytest.mark.parametrize("profile", POWER_CUTS)
def test_a_power_cut_under_async_flush_takes_nothing_below_the_flushed_position(
    ledger: Ledger, quiet_plan: Plan, profile: str
) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES[profile], FLUSHED_WHERE)
    assert list(ledger.promised) == ["flushed"]


def test_a_record_that_is_flushed_in_part_is_not_promised(ledger: Ledger, quiet_plan: Plan) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    end = ledger.puts[0].record_bytes
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=end - 1)
    assert list(ledger.promised) == []
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=end)
    assert list(ledger.promised) == ["flushed"]


def test_a_power_cut_after_a_process_kill_takes_back_what_was_only_in_the_page_cache(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == []


def test_a_power_cut_after_a_process_kill_takes_nothing_that_a_recovery_between_them_found(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered(named(ledger, *STORED)), durable=True)
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == STORED


def test_a_recovery_whose_sync_may_have_failed_makes_nothing_durable(ledger: Ledger, quiet_plan: Plan) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered(named(ledger, *STORED)), durable=False)
    assert list(ledger.promised) == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert list(ledger.promised) == []


def test_a_put_without_an_answer_that_a_recovery_finds_is_promised_from_then_on(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    lost_answer = named(ledger, "in flight")[0]
    lost_answer.physical_offset = 800  # known from the disk, not from an answer
    guarantees.note_recovery(ledger, recovered([lost_answer]), durable=True)
    assert list(ledger.promised) == ["in flight"]
    assert lost_answer.queue_offset == 0


def test_what_a_recovery_does_not_find_is_gone_for_good(ledger: Ledger, quiet_plan: Plan) -> None:
    guarantees.note_crash(ledger, quiet_plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    guarantees.note_recovery(ledger, recovered(named(ledger, "flushed")), durable=True)
    assert list(ledger.promised) == ["flushed"]
    assert sorted(ledger.gone) == ["did not wait", "in flight", "refused", "timed out", "waited"]

    back = recovered(named(ledger, "flushed", "timed out"))
    violations = list(prefix.check(Evidence(ledger, back)))
    assert [(violation.field, violation.found) for violation in violations] == [("resurrected record", "timed out")]
    guarantees.note_recovery(ledger, back, durable=True)
    assert "timed out" in ledger.gone


def test_a_lost_put_whose_client_still_waits_has_no_place_any_more(ledger: Ledger, quiet_plan: Plan) -> None:
    waiting = named(ledger, "in flight")[0]
    waiting.physical_offset, waiting.over_in = 800, None
    guarantees.note_recovery(ledger, recovered(named(ledger, *STORED)), durable=True)

    assert waiting.physical_offset is None, "the new life may store another record at 800, and this put elsewhere"
    assert "in flight" not in ledger.gone


def test_what_is_gone_is_no_longer_missed(ledger: Ledger, quiet_plan: Plan) -> None:
    guarantees.note_crash(ledger, quiet_plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    less = recovered(named(ledger, "flushed"))
    assert [violation.expected for violation in dur.check(Evidence(ledger, less))] == ["waited"]
    guarantees.note_recovery(ledger, less, durable=True)
    assert list(dur.check(Evidence(ledger, less))) == []


def test_what_consumers_saw_stays_under_sync_flush_whatever_comes(ledger: Ledger, quiet_plan: Plan) -> None:
    ledger.seen = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(named(ledger, *STORED))]
    seen = list(ledger.seen)
    guarantees.note_crash(ledger, quiet_plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert ledger.stable == seen


def test_what_consumers_saw_under_async_flush_stays_as_far_as_it_is_durable(ledger: Ledger, quiet_plan: Plan) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    ledger.seen = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(named(ledger, *STORED))]
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert [seen.put.name for seen in ledger.stable] == ["flushed"]


def test_what_consumers_saw_survives_a_process_kill_and_not_the_power_cut_after_it(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    ledger.seen = [ConsumedMessage("T", 0, number, put) for number, put in enumerate(named(ledger, *STORED))]
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], FLUSHED_WHERE)
    assert [seen.put.name for seen in ledger.stable] == STORED
    ledger.begin_life()
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
    assert ledger.stable == []


def test_a_copy_that_consumers_saw_stays_as_far_as_the_copy_is_durable_not_its_put(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    (put,) = named(ledger, "flushed")
    ledger.seen = [ConsumedMessage("T", 0, number, put, copy_end) for number, copy_end in enumerate((200, 201))]
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE)
    assert [seen.copy_end for seen in ledger.stable] == [200]


def test_a_copy_that_a_stop_or_a_recovery_has_made_durable_stays(ledger: Ledger, quiet_plan: Plan) -> None:
    plan = replace(quiet_plan, sync_flush=False)
    (put,) = named(ledger, "flushed")
    for end in (guarantees.note_stop, lambda ledger: killed_and_found(ledger, plan, put)):
        ledger.stable, ledger.seen = [], [ConsumedMessage("T", 0, 0, put, 900)]
        end(ledger)
        ledger.begin_life()
        guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], flushed_where=0)
        assert [seen.copy_end for seen in ledger.stable] == [900]


def killed_and_found(ledger: Ledger, plan: Plan, put: PutEntry) -> None:
    guarantees.note_crash(ledger, plan, PROFILES["process-kill"], 0)
    guarantees.note_recovery(ledger, recovered([put]), durable=True)


def test_damage_takes_the_copies_behind_it_and_excuses_what_had_been_delivered(
    ledger: Ledger, make_put: Callable[..., PutEntry]
) -> None:
    (put,) = named(ledger, "flushed")
    ledger.promise(put)
    ledger.stable = [ConsumedMessage("T", 0, number, put, copy_end) for number, copy_end in enumerate((500, 501))]
    guarantees.note_damage(ledger, 500)
    assert [seen.copy_end for seen in ledger.stable] == [500]

    for number in range(3):
        delayed = make_put(f"delayed {number}")
        delayed.detour, delayed.queue_offset = Detour(("SCHEDULE_TOPIC_XXXX", 1), 1000), number
        ledger.ask(delayed)
    guarantees.note_damaged_copies(ledger, {1: 9, 2: 2})
    assert ledger.delivered_into_damage == {"delayed 0", "delayed 1"}


@pytest.mark.parametrize("profile", CACHE_SURVIVES)
def test_a_process_kill_with_a_write_buffer_takes_nothing_below_the_committed_position_and_nothing_seen(
    ledger: Ledger, quiet_plan: Plan, profile: str
) -> None:
    plan = quiet_plan.replace(sync_flush=False, memory={"transient_pool": True})
    flushed, waited, *_ = ledger.puts
    ledger.seen = [ConsumedMessage("T", 0, 0, flushed)]
    committed_where = (waited.physical_offset or 0) + waited.record_bytes
    guarantees.note_crash(ledger, plan, PROFILES[profile], 0, committed_where - 1)
    assert list(ledger.promised) == ["flushed"]
    guarantees.note_crash(ledger, plan, PROFILES[profile], 0, committed_where)
    assert list(ledger.promised) == ["flushed", "waited"]
    assert {seen.put.name for seen in ledger.stable} == {"flushed"}


def test_a_power_cut_with_a_write_buffer_asks_what_is_flushed_not_what_is_committed(
    ledger: Ledger, quiet_plan: Plan
) -> None:
    plan = quiet_plan.replace(sync_flush=False, memory={"transient_pool": True})
    guarantees.note_crash(ledger, plan, PROFILES["strict-posix"], FLUSHED_WHERE, 800)
    assert list(ledger.promised) == ["flushed"]
