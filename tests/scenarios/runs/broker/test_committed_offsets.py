"""Offsets that a slave may copy while clients commit others."""

from tornlog.scenarios.runs.broker.watched_copies import CommittedOffsets

_PLACE = ("T0@consumers", 0)


def test_a_copy_may_see_commits_that_begin_before_its_end_and_end_after_its_begin() -> None:
    commits = CommittedOffsets()
    with commits.commit(_PLACE, 1):
        pass
    with commits.commit(_PLACE, 2):
        copy = commits.begin_copy()
    with commits.commit(_PLACE, 3):
        assert copy == {_PLACE: {2, 3}}
        commits.end_copy(copy)
    with commits.commit(_PLACE, 4):
        pass
    assert copy == {_PLACE: {2, 3}}
    assert commits.begin_copy() == {}


def test_a_commit_that_fails_is_no_longer_in_progress() -> None:
    commits = CommittedOffsets()
    try:
        with commits.commit(_PLACE, 1):
            raise InterruptedError
    except InterruptedError:
        assert commits.begin_copy() == {}
