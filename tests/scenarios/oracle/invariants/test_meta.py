import pytest

from tornlog.scenarios.oracle.invariants import side_files
from tornlog.scenarios.oracle.ledger import Versions
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

GROUP = ("G0", "T0", 0)


@pytest.fixture
def versions() -> Versions:
    """Return a file with one durable version and two later ones in progress."""
    versions = Versions("/store/config/consumerOffset.json")
    versions.durable = b"durable"
    versions.unfinished = [b"first", b"second"]
    return versions


@pytest.mark.parametrize("loaded", [b"durable", b"first", b"second"])
def test_the_durable_version_of_a_side_file_and_all_later_ones_are_no_violation(
    versions: Versions, loaded: bytes
) -> None:
    versions.note_load(loaded)

    assert list(side_files.check_version(versions)) == []


@pytest.mark.parametrize("loaded", [None, b"older"])
def test_any_other_version_of_a_side_file_is_a_violation(versions: Versions, loaded: bytes | None) -> None:
    versions.note_load(loaded)

    (violation,) = side_files.check_version(versions)

    assert (violation.invariant, violation.file) == ("META", "/store/config/consumerOffset.json")
    assert (violation.expected, violation.found) == ("durable", "none" if loaded is None else "older")
    assert "one of 2 later ones" in violation.summary


def test_a_missing_side_file_is_no_violation_before_the_first_version_is_durable() -> None:
    versions = Versions("/store/config/delayOffset.json")
    versions.unfinished = [b"first"]
    versions.note_load(None)

    assert list(side_files.check_version(versions)) == []


def test_delivery_progress_within_the_queues_of_its_levels_is_no_violation(store: MessageStore) -> None:
    store.put_message(Message("T0", b"later", properties="KEYS\1k\2DELAY\0011"))
    store.world.tasks.sleep(2_000)
    assert store.schedule.offsets == {1: 1}
    assert list(side_files.check_delay_levels(store)) == []


@pytest.mark.parametrize(("level", "offset", "expected"), [(1, 2, "0 to 1"), (1, -1, "0 to 1"), (2, 1, "0 to 0")])
def test_delivery_progress_outside_of_the_queue_of_its_level_is_a_violation(
    store: MessageStore, level: int, offset: int, expected: str
) -> None:
    store.put_message(Message("T0", b"later", properties="KEYS\1k\2DELAY\0011"))
    store.world.tasks.sleep(100)
    store.schedule.offsets = {level: offset}
    (violation,) = side_files.check_delay_levels(store)
    assert violation.summary == f"progress of delay level {level} is outside of its queue"
    assert (violation.expected, violation.found) == (expected, str(offset))


@pytest.mark.parametrize(("found", "clamped", "expected"), [(5, 5, "1"), (1, 0, "1"), (-1, 0, "-1")])
def test_a_wrong_offset_of_a_group_is_a_violation(store: MessageStore, found: int, clamped: int, expected: str) -> None:
    store.put_message(Message("T0", b"now", properties="KEYS\1k"))
    store.world.tasks.sleep(100)
    assert list(side_files.check_clamped_offsets(store, {GROUP: found}, {GROUP: min(found, 1)})) == []
    (violation,) = side_files.check_clamped_offsets(store, {GROUP: found}, {GROUP: clamped})
    assert violation.summary == "the offset of G0 in T0/0 is not limited to its queue"
    assert (violation.expected, violation.found) == (expected, str(clamped))
