"""What clients were told, what follows from it, and what contradicts it."""

from dataclasses import replace

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord
from tornlog.scenarios.runs.broker.client_ledger import ClientLedger
from tornlog.scenarios.runs.broker.message_options import MessageOptions, Subscription
from tornlog.scenarios.runs.broker.sent_messages import MessagePlace, body_of, found_places, name_in
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC

KILL, POWER = PROFILES["process-kill"], PROFILES["strict-posix"]


def record(place: MessagePlace, body: bytes) -> FoundRecord:
    scanned = LogRecord(0, 100, place.topic, place.queue_id, place.queue_offset, 0, 0, b"", PLAIN.head(body))
    return FoundRecord(scanned, "log", 0, body)


def place(offset: int, topic: str = "T0") -> MessagePlace:
    return MessagePlace(topic, 0, offset)


def answered(ledger: ClientLedger, name: str, offset: int, log_offset: int = 0) -> FoundRecord:
    """Have a message answered, and return it as a recovery finds it."""
    send = ledger.begin(name, body_of(name, 40))
    assert not list(ledger.answer(0, send, place(offset), log_offset, asked_in=ledger.life))
    return record(place(offset), send.body)


def invariants(ledger: ClientLedger, *records: FoundRecord) -> list[str]:
    return [violation.invariant for violation in ledger.check_recovery(list(records))]


@pytest.mark.parametrize("size_bytes", [0, 5, 40, 1000])
def test_a_body_tells_whose_it_is(size_bytes: int) -> None:
    body = body_of("m0.1.2", size_bytes)
    assert name_in(body) == "m0.1.2"
    assert len(body) == max(size_bytes, len("m0.1.2|"))


@pytest.mark.parametrize(
    ("profile", "sync_flush", "flushed_where", "is_kept"),
    [(KILL, False, 0, True), (POWER, True, 0, True), (POWER, False, 0, False), (POWER, False, 10_000, True)],
)
def test_what_was_answered_is_there_after_what_may_not_take_it(
    profile: object, sync_flush: bool, flushed_where: int, is_kept: bool
) -> None:
    ledger = ClientLedger(sync_flush)
    answered(ledger, "m0", 0, log_offset=5_000)
    ledger.note_crash(profile, flushed_where=flushed_where)  # type: ignore[arg-type]

    assert invariants(ledger) == (["DUR"] if is_kept else [])


def test_what_a_recovery_has_found_is_there_for_good() -> None:
    ledger = ClientLedger(sync_flush=False)
    found = answered(ledger, "m0", 0)
    ledger.note_recovery([found], {})
    ledger.note_crash(POWER, flushed_where=0)

    assert invariants(ledger, found) == []
    assert invariants(ledger) == ["DUR"]


def test_what_a_stop_has_left_is_there_for_good() -> None:
    ledger = ClientLedger(sync_flush=False)
    answered(ledger, "m0", 0)
    ledger.note_stop()
    ledger.note_crash(POWER, flushed_where=0)
    assert invariants(ledger) == ["DUR"]


def test_a_message_is_there_no_more_often_than_it_may_have_been_stored() -> None:
    ledger = ClientLedger(sync_flush=True)
    first = answered(ledger, "m0", 0)
    again = record(place(1), first.body)
    assert invariants(ledger, first, again) == ["ONCE"]
    ledger.sends["m0"].maybe = 1
    assert invariants(ledger, first, again) == []
    assert ledger.hits["stored twice"] == 2
    assert invariants(ledger, first, again, record(place(2), first.body)) == ["ONCE"]


def test_what_nobody_sent_is_found_out_and_what_is_not_users_is_passed_over() -> None:
    ledger = ClientLedger(sync_flush=True)
    assert invariants(ledger, record(place(0), b"stray|")) == ["ONCE"]
    assert invariants(ledger, record(place(0, "SYSTEM"), b"stray|")) == []
    send = ledger.begin("m0", body_of("m0", 40))
    send.maybe = 1
    assert invariants(ledger, record(place(0), send.body[:-1])) == ["ONCE"]


def test_a_producers_answers_are_in_the_order_of_its_sends() -> None:
    ledger = ClientLedger(sync_flush=True)
    answered(ledger, "m0", 5)
    late = ledger.begin("m1", b"m1|")
    (violation,) = ledger.answer(0, late, place(4), 0, asked_in=0)
    assert (violation.invariant, violation.field) == ("QOFF", "order")
    other = ledger.begin("m2", b"m2|")
    assert not list(ledger.answer(1, other, place(3), 0, asked_in=0)), "another producer's order is its own"


def test_a_place_has_one_message() -> None:
    ledger = ClientLedger(sync_flush=True)
    answered(ledger, "m0", 0)
    other = ledger.begin("m1", b"m1|")
    (violation,) = ledger.answer(1, other, place(0), 0, asked_in=0)
    assert (violation.invariant, violation.field) == ("QOFF", "place")


def test_what_was_shown_cannot_vanish_where_flushes_are_waited_for() -> None:
    for sync_flush, expected in ((True, ["VIS"]), (False, [])):
        ledger = ClientLedger(sync_flush)
        send = ledger.begin("m0", body_of("m0", 40))
        assert not list(ledger.show(place(0), send.body, 0, asked_in=0, now_ns=0))
        ledger.note_crash(POWER, flushed_where=0)
        assert invariants(ledger) == expected


def test_an_answer_that_comes_after_its_life_has_ended_promises_what_that_life_did() -> None:
    for sync_flush, expected in ((True, ["DUR"]), (False, [])):
        ledger = ClientLedger(sync_flush)
        send = ledger.begin("m0", body_of("m0", 40))
        ledger.note_crash(POWER, flushed_where=0)
        assert not list(ledger.answer(0, send, place(0), 0, asked_in=0))
        assert ledger.hits["late answer"] == 1
        assert invariants(ledger) == expected


def test_a_half_message_is_there_and_becomes_what_its_producer_decided() -> None:
    ledger = ClientLedger(sync_flush=True)
    kept = ledger.begin("m0", body_of("m0", 40), is_half=True, commits=True)
    ledger.begin("m1", body_of("m1", 40), is_half=True)
    ledger.answer_half(kept, 0, asked_in=0)
    half, visible = (record(MessagePlace(topic, 0, 0), kept.body) for topic in (HALF_TOPIC, "T0"))
    given_up = record(MessagePlace(GIVEN_UP_TOPIC, 0, 0), kept.body)

    assert invariants(ledger, half) == []
    assert invariants(ledger) == ["DUR"]
    assert invariants(ledger, half, visible) == ["ONCE"], "nobody has said that it is to be committed"
    kept.maybe = 1
    assert invariants(ledger, half, visible) == []
    assert invariants(ledger, half, record(place(1), ledger.sends["m1"].body)) == ["ONCE"], "rolled back"

    assert [found.found for found in ledger.check_decided([half])] == ["undecided"]
    assert not list(ledger.check_decided([half, visible]))
    assert not list(ledger.check_decided([half, given_up]))
    assert [found.found for found in ledger.check_decided([half, given_up], resumed=True)] == ["given up"]
    kept.is_insisted_on = True
    assert [found.found for found in ledger.check_decided([half, given_up])] == ["given up"]


def test_everything_is_shown_but_what_took_the_place_of_something_lost() -> None:
    ledger = ClientLedger(sync_flush=False)
    lost = ledger.begin("m0", body_of("m0", 40))
    assert not list(ledger.show(place(0), lost.body, 0, asked_in=0, now_ns=0))
    ledger.note_crash(POWER, flushed_where=0)
    ledger.note_recovery([], {})
    records = [answered(ledger, "m1", 0), answered(ledger, "m2", 1)]
    missing = list(ledger.check_shown(records))
    assert [violation.invariant for violation in missing] == ["LIVE"]
    assert "m2" in missing[0].summary


def test_an_answer_of_an_earlier_life_sends_a_consumer_past_what_recoveries_have_taken_since_and_no_more() -> None:
    for asked_in, left, excused in ((0, 1, True), (0, 3, False), (1, 1, False)):
        ledger = ClientLedger(sync_flush=False)
        begun = [answered(ledger, f"m{offset}", offset) for offset in range(left)]
        ledger.note_crash(POWER, flushed_where=10_000)
        ledger.note_recovery(begun, {})
        ledger.pass_over(("T0", 0), 2, asked_in=asked_in)
        records = [*begun, *(answered(ledger, f"n{offset}", offset) for offset in range(left, 3))]

        owed = [record.record.queue_offset for record in records if not excused or record.record.queue_offset >= 2]
        assert len(list(ledger.check_shown(records))) == len(owed)


def test_a_message_that_took_a_lost_ones_place_before_another_start_is_excused_for_who_had_asked_before() -> None:
    ledger = ClientLedger(sync_flush=False)
    ledger.note_crash(POWER, flushed_where=0)
    ledger.note_recovery([], {})
    found = answered(ledger, "m0", 0)
    ledger.note_stop()
    ledger.note_recovery([found], {})
    assert len(list(ledger.check_shown([found]))) == 1
    ledger.pass_over(("T0", 0), 1, asked_in=1)
    assert len(list(ledger.check_shown([found]))) == 1, "it was there when that was asked"
    ledger.pass_over(("T0", 0), 1, asked_in=0)
    assert not list(ledger.check_shown([found]))


def test_a_start_takes_a_group_back_to_where_its_queue_ends_for_good() -> None:
    ledger, queue = ClientLedger(sync_flush=False), ("T0", 0)
    found = answered(ledger, "m0", 0)
    with ledger.commits.committing(queue, 5) as commit:
        commit.is_answered = True
    ledger.note_crash(POWER, flushed_where=0)
    ledger.note_recovery([found], {})

    assert [one.expected for one in ledger.commits.check(queue, 5, asked_in=ledger.life)] == ["0 to 1"]
    assert not list(ledger.commits.check(queue, 1, asked_in=ledger.life))


def test_a_message_that_is_to_wait_is_there_is_not_shown_early_and_is_delivered_once_by_each_life() -> None:
    ledger = ClientLedger(sync_flush=True)
    send = ledger.begin("m0", body_of("m0", 40))
    send.options, send.asked_ns = MessageOptions(delay_level=1), 0
    ledger.answer_delayed(send, 0, asked_in=0)
    waiting, delivered = (record(MessagePlace(topic, 0, 0), send.body) for topic in (SCHEDULE_TOPIC, "T0"))
    assert invariants(ledger) == ["DUR"]
    assert invariants(ledger, waiting) == []
    assert [found.invariant for found in ledger.check_decided([waiting])] == ["SCHED"]
    assert not list(ledger.check_decided([waiting, delivered]))

    early = list(ledger.show(place(0), send.body, 0, asked_in=0, now_ns=999_000_000))
    assert [found.invariant for found in early] == ["SCHED"]
    assert not list(ledger.show(place(0), send.body, 0, asked_in=0, now_ns=1_000_000_000))

    again = record(place(1), send.body)
    assert invariants(ledger, waiting, delivered, again) == ["ONCE"]
    ledger.note_crash(KILL, flushed_where=0)
    assert invariants(ledger, waiting, delivered, again) == []


@pytest.mark.parametrize(("sync_flush", "after_power_cut"), [(True, ["DUR"]), (False, [])])
def test_what_was_sent_back_is_there_once_more_and_is_given_again(
    after_power_cut: list[str], *, sync_flush: bool
) -> None:
    ledger = ClientLedger(sync_flush=sync_flush)
    sent = answered(ledger, "m0", 0)
    ledger.send_back(sent.body, asked_in=0)
    waiting = record(MessagePlace(SCHEDULE_TOPIC, 0, 0), sent.body)
    properties = b"REAL_TOPIC\1%RETRY%consumers\2"
    waiting = replace(waiting, record=waiting.record._replace(properties=properties))
    again, dead = (record(MessagePlace(topic, 0, 0), sent.body) for topic in ("%RETRY%consumers", "%DLQ%consumers"))
    assert invariants(ledger, sent) == ["DUR"]
    assert invariants(ledger, sent, waiting) == invariants(ledger, sent, again) == []
    assert [found.invariant for found in ledger.check_given_again([sent, waiting])] == ["SCHED"]
    assert not list(ledger.check_given_again([sent, waiting, again]))
    assert not list(ledger.check_given_again([sent, dead]))

    ledger.note_crash(POWER, flushed_where=1_000)
    assert invariants(ledger, sent) == after_power_cut
    ledger.note_recovery([sent, waiting], {})
    assert invariants(ledger, sent) == ["DUR"], "found once, it is there for good"
    ledger.expired_to = 1
    assert invariants(ledger, sent) == []


def test_a_group_is_owed_what_it_wants_and_nothing_else() -> None:
    wants_a = Subscription("TAG", "TagA", lambda options: options.tag == "TagA")
    ledger = ClientLedger(sync_flush=True, subscription=wants_a)
    records = [answered(ledger, name, offset) for offset, name in enumerate(("m0", "m1"))]
    ledger.sends["m0"].options = MessageOptions(tag="TagA")

    assert ["m0" in missing.summary for missing in ledger.check_shown(records)] == [True]
    assert not list(ledger.show(place(0), records[0].body, 0, asked_in=0, now_ns=0))
    unwanted = list(ledger.show(place(1), records[1].body, 0, asked_in=0, now_ns=0))
    assert [(found.invariant, found.field) for found in unwanted] == [("READ", "filter")]


def test_what_a_recovery_found_after_a_failed_sync_is_in_the_page_cache_at_least() -> None:
    for profile, expected in ((KILL, ["DUR"]), (POWER, [])):
        ledger = ClientLedger(sync_flush=False)
        found = answered(ledger, "m0", 0)
        ledger.note_recovery([found], {}, durable=False)
        ledger.note_crash(profile, flushed_where=0)
        assert invariants(ledger) == expected


def test_a_kill_takes_what_was_only_in_a_buffer() -> None:
    for committed_where, expected in ((0, []), (10_000, ["DUR"])):
        ledger = ClientLedger(sync_flush=False)
        answered(ledger, "m0", 0, log_offset=5_000)
        ledger.note_crash(KILL, flushed_where=0, committed_where=committed_where)
        assert invariants(ledger) == expected


def test_what_a_consumer_died_with_is_to_be_given_again() -> None:
    ledger = ClientLedger(sync_flush=True)
    records = [answered(ledger, "m0", 0), answered(ledger, "m1", 1)]
    for offset, found in enumerate(records):
        assert not list(ledger.show(place(offset), found.body, 0, asked_in=0, now_ns=0))
    ledger.deal_with([place(0)])

    assert ["m1" in missing.summary for missing in ledger.check_shown(records)] == [True]


def test_what_was_made_for_those_who_were_answered_is_in_the_tables_of_a_start() -> None:
    ledger = ClientLedger(sync_flush=True)
    ledger.topics["T0"] = 1
    ledger.groups.add("consumers")

    assert list(ledger.check_tables({"T0": 2}, {"consumers"})) == []
    short, missing = ledger.check_tables({"T0": 1}, set())
    assert (short.invariant, short.field, short.found) == ("META", "topic", "1 queues")
    assert (missing.invariant, missing.field) == ("META", "group")
    (gone,) = ledger.check_tables({}, {"consumers"})
    assert gone.found == "no such topic"


def test_what_has_expired_is_owed_no_more_and_nothing_behind_it_is_excused() -> None:
    ledger = ClientLedger(sync_flush=True)
    answered(ledger, "m0", 0, log_offset=100)
    left = answered(ledger, "m1", 1, log_offset=2_000)
    half = ledger.begin("h0", body_of("h0", 40), is_half=True, commits=True)
    ledger.answer_half(half, 200, asked_in=0)
    assert invariants(ledger) == ["DUR", "DUR", "DUR"]

    ledger.expired_to = 1_024
    assert invariants(ledger) == ["DUR"]
    assert invariants(ledger, left) == []
    assert not list(ledger.check_decided([]))


def test_a_start_that_finds_a_queue_of_which_all_has_expired_takes_no_group_back() -> None:
    ledger = ClientLedger(sync_flush=True)
    answered(ledger, "m0", 0, log_offset=100)
    with ledger.commits.committing(("T0", 0), 1) as commit:
        commit.is_answered = True
    ledger.note_stop()
    ledger.expired_to = 1_024
    ledger.note_recovery([], {("T0", 0): 1})
    (lost,) = ledger.commits.check(("T0", 0), 0, asked_in=ledger.life)
    assert (lost.invariant, lost.expected) == ("META", "1 to 1")


def test_a_consumer_is_sent_past_what_has_expired_and_nothing_else() -> None:
    ledger = ClientLedger(sync_flush=True)
    for number in range(3):
        answered(ledger, f"m{number}", number, log_offset=1_000 * number)
    (missed,) = ledger.check_skipped(("T0", 0), 0, 2, asked_in=0)
    assert missed.expected == "T0/0 @ 0", "nothing has expired yet"
    ledger.expired_to = 1_024
    assert not list(ledger.check_skipped(("T0", 0), 0, 2, asked_in=0))
    (missed,) = ledger.check_skipped(("T0", 0), 0, 3, asked_in=0)
    assert (missed.invariant, missed.expected, missed.found) == ("CLEAN", "T0/0 @ 2", "@ 3")
    assert not list(ledger.check_skipped(("T0", 0), 0, 3, asked_in=1)), "the bounds of another life are its own"


def test_a_consumer_sees_a_record_that_a_tear_has_moved_where_the_next_one_is_to_be() -> None:
    ledger = ClientLedger(sync_flush=False, tears=True, holes={("T0", 0): {3, 4}})

    assert ledger.seen_place(place(1), place(5), 488) == place(5)
    assert ledger.seen_place(place(1), place(5), 100) == place(1), "no tear can have moved it"
    assert ledger.seen_place(place(7), place(5), 488) == place(7), "it is behind a gap"
    assert [ledger.lacks(("T0", 0), 3, end) for end in (4, 5, 6)] == [True, True, False]

    calm = ClientLedger(sync_flush=False, holes={("T0", 0): {3, 4}})
    assert calm.seen_place(place(1), place(5), 488) == place(1)
    assert not calm.lacks(("T0", 0), 3, 4)


def test_of_what_a_consumer_is_shown_a_record_that_a_tear_can_have_moved_is_not_expected_again() -> None:
    ledger = ClientLedger(sync_flush=False, tears=True)
    for log_offset, offset in ((488, 0), (612, 1)):
        send = ledger.begin(f"m{offset}", body_of(f"m{offset}", 40))
        assert not list(ledger.show(place(offset), send.body, log_offset, asked_in=0, now_ns=0))

    assert list(ledger.expected) == [place(1)]


def test_of_two_records_that_say_the_same_place_the_first_is_there() -> None:
    first, moved = record(place(0), b"first"), record(place(0), b"moved")

    assert found_places([first, moved]) == {place(0): first}
