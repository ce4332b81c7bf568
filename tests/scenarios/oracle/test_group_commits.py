import pytest

from tornlog.scenarios.oracle.group_commits import GroupCommits
from tornlog.scenarios.oracle.invariants.delivery import check_group_offset

GROUP = ("G0", "T0", 0)
QUEUE = GROUP[1:]
PERSISTED_MS = 100


class Group(GroupCommits):
    """Commits at virtual times that the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0

    def commit(self, offset: int, *, is_answered: bool = True) -> None:
        """Commit an offset now."""
        with self.committing(GROUP, offset, lambda: self.now_ms * 1_000_000) as one:
            one.is_answered = is_answered

    def stop(self) -> None:
        """End a life with a clean stop."""
        self.note_stop()
        self.end_life()

    def crash(self, persisted_within_ms: int | None = PERSISTED_MS) -> None:
        """End a life with a crash."""
        self.note_crash(persisted_within_ms, self.now_ms * 1_000_000)
        self.end_life()

    def found(self, offset: int) -> list[tuple[str, str]]:
        """Return invariant and expected value of the violation for an offset answered in this life."""
        return [(one.invariant, one.expected) for one in check_group_offset(self, GROUP, offset, asked_in=self.life)]


def test_a_group_offset_must_have_been_committed_and_not_precede_the_last_acknowledged_one() -> None:
    group = Group()
    assert not group.found(0)
    assert group.found(1) == [("META", "<= 0")]
    group.commit(3)
    assert group.found(2) == [("META", "3 to 3")]
    group.commit(1)
    assert not group.found(1), "the group has gone back itself"


def test_an_unanswered_commit_may_take_effect_until_its_life_ends() -> None:
    group = Group()
    group.commit(1, is_answered=False)
    group.commit(3)
    assert not group.found(1)
    group.stop()
    assert group.found(0) == [("META", "1 to 3")]
    group.commit(3)
    assert group.found(1) == [("META", "3 to 3")]


def test_an_answer_of_an_ended_life_does_not_limit_later_group_offsets() -> None:
    group = Group()
    group.commit(3)
    group.stop()
    assert not list(check_group_offset(group, GROUP, 0, asked_in=0))
    assert not list(check_group_offset(group, GROUP, 0, asked_in=None)), "a slave may be behind"


def test_group_offsets_persisted_by_a_stop_survive_later_crashes() -> None:
    group = Group()
    group.commit(5)
    group.stop()
    group.crash()
    group.stop()
    assert group.found(0) == [("META", "5 to 5")]
    assert not group.found(5)


def test_a_crash_loses_only_commits_of_the_last_persist_interval() -> None:
    group = Group()
    for at_ms, offset in ((0, 3), (50, 5), (140, 7)):
        group.now_ms = at_ms
        group.commit(offset)
    group.now_ms = 151
    group.crash()
    assert group.found(3) == [("REDEL", ">= 5")]
    assert not group.found(5)
    assert not group.found(7)


def test_a_crash_may_lose_all_commits_if_the_persist_time_is_unknown() -> None:
    group = Group()
    group.commit(3)
    group.now_ms = 10_000
    group.crash(None)
    assert not group.found(0)


def test_a_lower_commit_within_the_interval_may_be_the_persisted_one() -> None:
    group = Group()
    group.commit(5)
    group.now_ms = 120
    group.commit(2)
    group.commit(4, is_answered=False)
    group.now_ms = 130
    group.crash()
    assert group.found(1) == [("REDEL", ">= 2")]
    assert not group.found(2)


def group_with_lowered_offset(offset: int, end: int) -> Group:
    """Return a group with a committed offset that a start after a crash lowered to the queue's end."""
    group = Group()
    group.commit(offset)
    group.now_ms = 200
    group.crash()
    group.lower_to_ends({QUEUE: end})
    return group


def test_a_start_lowers_the_offset_of_a_group_to_the_end_of_its_queue() -> None:
    group = group_with_lowered_offset(5, 3)
    assert not group.found(3)
    assert group.found(2) == [("REDEL", ">= 3")]
    assert group.found(4) == [("META", "<= 3")]


@pytest.mark.parametrize("offset", [2, 3, 5])
def test_a_crash_while_a_start_lowers_offsets_leaves_the_old_or_the_lowered_offset(offset: int) -> None:
    group = Group()
    group.commit(5)
    group.stop()
    group.may_be_lowered_to({GROUP: 3})
    group.crash()
    assert bool(group.found(offset)) == (offset < 3)


def test_an_answer_from_an_earlier_life_or_a_slave_may_have_the_offset_before_it_was_lowered() -> None:
    group = group_with_lowered_offset(5, 3)
    for asked_in in (0, None):
        assert [list(check_group_offset(group, GROUP, offset, asked_in=asked_in)) for offset in range(6)] == [[]] * 6
        assert [one.expected for one in check_group_offset(group, GROUP, 6, asked_in=asked_in)] == ["<= 5"]
    assert group.found(5) == [("META", "<= 3")]


def test_an_unanswered_lower_commit_may_be_the_offset_after_a_stop() -> None:
    group = Group()
    group.commit(5)
    group.commit(3, is_answered=False)
    group.stop()
    assert not group.found(3)
    assert group.found(2) == [("META", "3 to 5")]


@pytest.mark.parametrize("found", [-1, 3, 5])
def test_a_clean_stop_keeps_the_exact_offset_of_a_group(found: int) -> None:
    group = Group()
    group.commit(5)
    group.commit(4)
    group.stop()
    assert group.found(found) == [("REDEL", "4")]
    assert not group.found(4)
    group.crash()
    assert not group.found(5)


def test_a_stop_that_could_not_persist_may_lose_all_commits_of_its_life() -> None:
    group = Group()
    group.commit(4)
    group.note_stop(is_kept=False)
    group.end_life()
    assert not group.found(0)


def test_after_a_start_the_loaded_group_offsets_are_the_known_ones() -> None:
    group = Group()
    group.commit(7)
    group.crash()
    group.note_loaded_offsets({GROUP: 3})
    assert (group.at, group.greatest) == ({GROUP: 3}, {GROUP: 3})
    assert group.found(2) == [("REDEL", "3")]
    assert group.found(7) == [("META", "<= 3")]
    group.note_loaded_offsets({GROUP: -1})
    assert (group.at, group.greatest) == ({}, {GROUP: 0})


def test_after_a_corrupt_offset_file_a_group_may_have_any_earlier_offset() -> None:
    group = Group()
    group.commit(7)
    group.crash()
    group.note_loaded_offsets({GROUP: 3})
    group.stop()
    group.lose_newest_file()
    assert not group.found(0)
    assert not group.found(7)
    assert group.found(8) == [("META", "<= 7")]


def test_a_group_remembers_its_last_and_its_greatest_commit() -> None:
    group = Group()
    for offset in (3, 7, 5):
        group.commit(offset)
    assert (group.at, group.greatest) == ({GROUP: 5}, {GROUP: 7})
