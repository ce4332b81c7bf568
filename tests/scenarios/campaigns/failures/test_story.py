"""Stories of failures: the relevant events are found among hundreds of others."""

from tornlog.scenarios.campaigns.failures.story import STORY_LINES, story_of
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.sim.trace import TraceEvent
from tornlog.store.config import StoreConfig

CONFIG = StoreConfig("/store")
LOG = "/store/commitlog/00000000000000000000"
NEXT = "/store/commitlog/00000000000000004096"


def event(number: int, task: str, kind: str, text: str) -> TraceEvent:
    """Make an event at a given millisecond."""
    return TraceEvent(number * 1_000_000, number, task, kind, text)


def with_other_events(*told: TraceEvent) -> list[TraceEvent]:
    """Return the given events, followed by hundreds of others."""
    others = [event(1000 + number, "life-0/index", "store", "/store/index/1 [0, 4)") for number in range(500)]
    return [*told, *others]


def test_the_story_has_events_on_the_bytes_of_the_violation() -> None:
    wrote = event(1, "life-0/producer-0", "store", f"{LOG} [100, 300)")
    other = event(2, "life-0/producer-0", "store", f"{LOG} [300, 500)")
    story = story_of(
        with_other_events(wrote, other), [Violation("PREFIX", "a record that no producer put", LOG, 150)], CONFIG
    )

    assert len(story) <= STORY_LINES
    assert story[0].startswith("4 of 503 events, chosen for commitlog/0")
    assert "store commitlog/0 [100, 300)" in story[1]
    assert "[300, 500)" in story[2]


def test_the_story_has_events_on_the_record_of_the_named_message() -> None:
    ledger = Ledger()
    put = PutEntry("m0.1.7", "T0", 0, "", b"body", b"KEYS\1m0.1.7", True, 0)
    put.physical_offset, put.queue_offset = 4_200, 3
    ledger.record_request(put)
    wrote = event(1, "life-0/somebody", "store", f"{NEXT} [104, 210)")
    entry = event(2, "life-0/dispatch", "store", "/store/consumequeue/T0/0/00000000000000000000 [60, 80)")
    entries = [
        event(3 + n, "life-0/dispatch", "store", "/store/consumequeue/T0/0/00000000000000000000 [80, 100)")
        for n in range(40)
    ]
    violation = Violation("VIS", "m0.1.7 was given to a consumer and is not there", "commitlog", 4_200)
    story = story_of(with_other_events(wrote, entry, *entries), [violation], CONFIG, ledger)

    assert len(story) <= STORY_LINES
    assert "[104, 210)" in story[1]
    assert "[60, 80)" in story[2]
    assert "m0.1.7" in story[0]


def test_the_story_has_waiting_tasks_and_dead_machines() -> None:
    died = event(1, "life-0/main", "kill", "life-0")
    read = event(2, "life-1/dispatch", "map", LOG)
    story = story_of(
        with_other_events(died, read), [Violation("LIVE", "dispatch does not catch up", field="behind")], CONFIG
    )

    assert [" kill life-0" in story[1], "life-1/dispatch" in story[2]] == [True, True]


def test_the_story_has_events_on_a_file_that_an_error_names() -> None:
    made = event(1, "life-0/allocate", "create", NEXT)
    summary = f"the store cannot be opened: CorruptFileError: {NEXT} @ 0: size: expected 4096, found 7"
    story = story_of(with_other_events(made), [Violation("START", summary, field="load")], CONFIG)

    assert "create commitlog/4096" in story[1]


def test_callers_are_named_at_a_write_of_the_violated_bytes_only() -> None:
    place = "log/segment.py:67 < log/commit_log.py:198 < message_store.py:378 < services/transaction_service.py:195"
    wrote = event(1, "life-0/producer-0", "store", f"{LOG} [100, 300)")._replace(place=place)
    other = event(2, "life-0/producer-0", "store", f"{LOG} [300, 500)")._replace(place=place)
    story = story_of(with_other_events(wrote, other), [Violation("PREFIX", "a wrong record", LOG, 150)], CONFIG)

    assert story[1].endswith(f"  [{place}]")
    assert story[2].endswith("  [log/segment.py:67 < log/commit_log.py:198]")


def test_bytes_that_were_written_twice_have_their_first_write() -> None:
    wrote = event(1, "life-0/producer-0", "store", f"{LOG} [100, 300)")
    again = event(2, "heal/main", "store", f"{LOG} [0, 4096)")
    story = story_of(with_other_events(wrote, again), [Violation("PREFIX", "a wrong record", LOG, 150)], CONFIG)

    state = "first written at 1.000 ms by life-0/producer-0, last written at 2.000 ms by heal/main, "
    assert [state in line for line in story if " state " in line] == [True]


def test_many_damaged_files_leave_room_for_the_one_of_the_violation() -> None:
    removed = [event(n, "disk", "damaged while off, removed:", f"/store/consumequeue/T1/{n}") for n in range(9)]
    own = event(1, "disk", "damaged while off, removed:", NEXT)
    story = story_of(with_other_events(own, *removed), [Violation("DUR", "a lost record", NEXT, 5)], CONFIG)

    assert [line.rpartition(" ")[2] for line in story if "removed" in line].count("commitlog/4096") == 1
    assert sum("removed" in line for line in story) == 4


def test_the_story_of_a_short_run_is_complete() -> None:
    events = [event(number, "life-0/main", "create", LOG) for number in range(STORY_LINES)]
    violation = Violation("DUR", "m0.0.0 was promised and is gone")

    assert len(story_of(events, [violation], CONFIG)) == STORY_LINES
    assert " of 15 events" in story_of([*events, events[-1]], [violation], CONFIG)[0]


def test_the_story_has_the_write_of_the_lost_message() -> None:
    failure = run_mutant(
        MUTANTS["no-dir-fsync-on-rollover"], MutationSettings(MutationLimits(120), scenarios=None)
    ).failure
    assert failure is not None
    breach = failure.original
    assert len(breach.story) <= STORY_LINES
    assert " events, chosen for " in breach.story[0]
    offset, name = breach.violations[0].offset, breach.violations[0].summary.split()[0]
    assert (breach.violations[0].invariant, offset >= 0, name[0]) == ("DUR", True, "m")
    assert any(": store commitlog/" in line and "[log/segment.py:" in line for line in breach.story)
    lost = [line for line in breach.story if "disk: power cut: name lost: create commitlog/" in line]
    assert lost
    assert all(line.endswith("its directory was not synced since") for line in lost)
