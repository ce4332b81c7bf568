"""What a slave may find in a copy while clients commit and remove offsets."""

from typing import Any, cast

from tornlog.scenarios.runs.broker.watched_copies import CommittedOffsets, note_commits
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager


class Offsets:
    def __init__(self) -> None:
        self.unlocked_offsets = {("T0@readers", 0): 5, ("T0@others", 0): 5}

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        pass

    def remove_group(self, group: str) -> None:
        pass


def test_a_copy_may_lack_an_offset_that_is_removed_meanwhile() -> None:
    offsets, commits = Offsets(), CommittedOffsets()
    note_commits(cast(ConsumerOffsetManager, cast(Any, offsets)), commits)
    seen = commits.begin_copy()
    offsets.remove_group("readers")

    assert seen == {("T0@readers", 0): {None}}
    assert not commits.pending


def test_a_group_of_a_light_queue_has_one_offset_per_topic() -> None:
    offsets, commits = Offsets(), CommittedOffsets()
    note_commits(cast(ConsumerOffsetManager, cast(Any, offsets)), commits)
    seen = commits.begin_copy()
    offsets.commit_offset("%LMQ%readers", "T0", 1, 7)
    offsets.commit_offset("readers", "T0", 1, 7)

    assert seen == {("T0@%LMQ%readers", 0): {7}, ("T0@readers", 1): {7}}
