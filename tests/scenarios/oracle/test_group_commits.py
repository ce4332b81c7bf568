import pytest

from tornlog.scenarios.oracle.group_commits import GroupCommits
from tornlog.scenarios.oracle.invariants.delivery import check_group

GROUP = ("G0", "T0", 0)
QUEUE = GROUP[1:]
PERSISTED_MS = 100


class Group(GroupCommits):
    """Commits at times that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0

    def commit(self, offset: int, *, is_answered: bool = True) -> None:
        """Commit an offset now."""
        with self.committing(GROUP, offset, lambda: self.now_ms * 1_000_000) as one:
            one.is_answered = is_answered

    def stop(self) -> None:
        """End a life in good order."""
        self.note_stop()
        self.end_life()

    def crash(self, persisted_within_ms: int | None = PERSISTED_MS) -> None:
        """End a life otherwise."""
        self.note_crash(persisted_within_ms, self.now_ms * 1_000_000)
        self.end_life()

    def found(self, offset: int) -> list[tuple[str, str]]:
        """Return what is wrong with an offset that is answered in this life: the invariant, and what it expects."""
        return [(one.invariant, one.expected) for one in check_group(self, GROUP, offset, asked_in=self.life)]


def test_a_committed_offset_is_one_that_was_committed_and_no_older_than_the_newest_answer() -> None:
    group = Group()
    assert not group.found(0)
    assert group.found(1) == [("META", "<= 0")]
    group.commit(3)
    assert group.found(2) == [("META", "3 to 3")]
    group.commit(1)
    assert not group.found(1), "the group has gone back itself"


def test_a_commit_that_nobody_has_an_answer_to_may_arrive_as_long_as_its_life_lasts() -> None:
    group = Group()
    group.commit(1, is_answered=False)
    group.commit(3)
    assert not group.found(1)
    group.stop()
    assert group.found(0) == [("META", "1 to 3")]
    group.commit(3)
    assert group.found(1) == [("META", "3 to 3")]


def test_an_answer_of_a_life_that_has_ended_says_nothing_of_what_came_since() -> None:
    group = Group()
    group.commit(3)
    group.stop()
    assert not list(check_group(group, GROUP, 0, asked_in=0))
    assert not list(check_group(group, GROUP, 0, asked_in=None)), "a slave may be behind"


def test_what_a_stop_has_kept_is_kept_by_later_ends_too() -> None:
    group = Group()
    group.commit(5)
    group.stop()
    group.crash()
    group.stop()
    assert group.found(0) == [("META", "5 to 5")]
    assert not group.found(5)


def test_a_crash_takes_what_was_answered_within_an_interval_of_persisting_and_nothing_older() -> None:
    group = Group()
    for at_ms, offset in ((0, 3), (50, 5), (140, 7)):
        group.now_ms = at_ms
        group.commit(offset)
    group.now_ms = 151
    group.crash()
    assert group.found(3) == [("REDEL", ">= 5")]
    assert not group.found(5)
    assert not group.found(7)


def test_a_crash_may_take_everything_where_nobody_knows_when_it_was_persisted() -> None:
    group = Group()
    group.commit(3)
    group.now_ms = 10_000
    group.crash(None)
    assert not group.found(0)


def test_what_went_back_within_the_interval_may_be_what_was_persisted() -> None:
    group = Group()
    group.commit(5)
    group.now_ms = 120
    group.commit(2)
    group.commit(4, is_answered=False)
    group.now_ms = 130
    group.crash()
    assert group.found(1) == [("REDEL", ">= 2")]
    assert not group.found(2)


def taken_back(offset: int, end: int) -> Group:
    """Return a group that had committed an offset, and was taken back to its queue's end by the start after a crash."""
    group = Group()
    group.commit(offset)
    group.now_ms = 200
    group.crash()
    group.take_back({QUEUE: end})
    return group


def test_a_start_takes_a_group_back_to_the_end_of_its_queue() -> None:
    group = taken_back(5, 3)
    assert not group.found(3)
    assert group.found(2) == [("REDEL", ">= 3")]
    assert group.found(4) == [("META", "<= 3")]


def test_an_answer_of_an_earlier_life_or_of_a_slave_may_be_what_a_start_has_taken_back() -> None:
    group = taken_back(5, 3)
    for asked_in in (0, None):
        assert [list(check_group(group, GROUP, offset, asked_in=asked_in)) for offset in range(6)] == [[]] * 6
        assert [one.expected for one in check_group(group, GROUP, 6, asked_in=asked_in)] == ["<= 5"]
    assert group.found(5) == [("META", "<= 3")]


def test_a_group_that_went_back_and_was_not_answered_may_be_found_back_after_a_stop() -> None:
    group = Group()
    group.commit(5)
    group.commit(3, is_answered=False)
    group.stop()
    assert not group.found(3)
    assert group.found(2) == [("META", "3 to 5")]


@pytest.mark.parametrize("found", [-1, 3, 5])
def test_a_clean_stop_leaves_a_group_exactly_where_it_is(found: int) -> None:
    group = Group()
    group.commit(5)
    group.commit(4)
    group.stop()
    assert group.found(found) == [("REDEL", "4")]
    assert not group.found(4)
    group.crash()
    assert not group.found(5)


def test_a_stop_that_could_not_persist_keeps_nothing_of_its_life() -> None:
    group = Group()
    group.commit(4)
    group.note_stop(is_kept=False)
    group.end_life()
    assert not group.found(0)


def test_a_start_says_where_groups_are() -> None:
    group = Group()
    group.commit(7)
    group.crash()
    group.note_found({GROUP: 3})
    assert (group.at, group.furthest) == ({GROUP: 3}, {GROUP: 3})
    assert group.found(2) == [("REDEL", "3")]
    assert group.found(7) == [("META", "<= 3")]
    group.note_found({GROUP: -1})
    assert (group.at, group.furthest) == ({}, {GROUP: 0})


def test_a_corrupt_file_takes_groups_back_to_any_version() -> None:
    group = Group()
    group.commit(7)
    group.crash()
    group.note_found({GROUP: 3})
    group.stop()
    group.lose()
    assert not group.found(0)
    assert not group.found(7)
    assert group.found(8) == [("META", "<= 7")]


def test_a_group_is_where_it_last_committed_and_has_been_as_far_as_it_ever_did() -> None:
    group = Group()
    for offset in (3, 7, 5):
        group.commit(offset)
    assert (group.at, group.furthest) == ({GROUP: 5}, {GROUP: 7})
