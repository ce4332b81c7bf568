"""Group commits: committed offsets of consumer groups, and the offsets that a store may load.

acknowledged commit     the group has that offset, or the offset of a later commit
other commit            the group may have that offset; until its next restart, the broker may execute the commit
clean stop              keeps acknowledged commits; without commits in flight, the next start loads the last offset
crash                   loses only commits acknowledged within the last persisting interval
recovery                durably lowers a group's offset to the end of the queue
corrupt file            the next start loads the backup
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from .group_delivery import Queue

Group = tuple[str, str, int]
"""Group, topic, queue id."""


@dataclass(slots=True, eq=False)
class Commit:
    """A consumer's request to store an offset."""

    group: Group
    offset: int
    asked_in: int
    is_answered: bool = False
    timed_out_in: int | None = None
    """The number of the store start after which the consumer's wait timed out; None while it waits."""


@dataclass(slots=True, eq=False)
class GroupCommits:
    """The commits to a store, or to a broker and the slave that replaces it."""

    at: dict[Group, int] = field(default_factory=dict)
    """The offset that was committed or loaded last."""
    greatest: dict[Group, int] = field(default_factory=dict)
    """Group -> greatest committed offset that no recovery has lowered."""
    greatest_ever: dict[Group, int] = field(default_factory=dict)
    lower_limits: dict[Group, int] = field(default_factory=dict)
    """Group -> least offset that the group may have after earlier stops and crashes."""
    limited_by_crash: set[Group] = field(default_factory=set)
    """Groups for which a crash set the lower limit."""
    final: dict[Group, int] = field(default_factory=dict)
    """Group -> exact offset that the group must have after a clean stop or a start."""
    life: int = field(default=0, compare=False)
    """How often the store has stopped or crashed."""
    answered: dict[Group, list[tuple[int, int]]] = field(default_factory=dict, compare=False)
    """Request time and offset of each commit acknowledged since the last start."""
    _unanswered: list[Commit] = field(default_factory=list, compare=False)
    """Commits in flight, and commits that timed out since the last start. The broker may still execute both."""

    @contextmanager
    def committing(self, group: Group, offset: int, now_ns: Callable[[], int]) -> Iterator[Commit]:
        """Record a commit, and its answer after the `with` block. The consumer may die inside the block."""
        assert offset >= 0, (group, offset)
        commit = Commit(group, offset, self.life)
        self.at[group] = offset
        self.final.pop(group, None)
        for greatest in (self.greatest, self.greatest_ever):
            greatest[group] = max(greatest.get(group, 0), offset)
        if group in self.lower_limits:
            self.lower_limits[group] = min(self.lower_limits[group], offset)
        self._unanswered.append(commit)
        try:
            yield commit
        finally:
            commit.timed_out_in = self.life
            if commit.is_answered:
                self._unanswered.remove(commit)
                if commit.asked_in == self.life:
                    self.answered.setdefault(group, []).append((now_ns(), offset))
            else:
                self._drop_timed_out_commits()

    def _drop_timed_out_commits(self) -> None:
        """Drop commits that timed out before the last start, because the broker can no longer execute them."""
        self._unanswered = [each for each in self._unanswered if each.timed_out_in in (None, self.life)]

    def least_offset(self, group: Group) -> int:
        answered = self.answered.get(group)
        return self._least_pending_offset(group, answered[-1][1] if answered else self.lower_limits.get(group, 0))

    def _least_pending_offset(self, group: Group, offset: int) -> int:
        return min([offset, *self._pending_offsets(group)])

    def _pending_offsets(self, group: Group) -> list[int]:
        return [each.offset for each in self._unanswered if each.group == group]

    # -- stops and starts --------------------------------------------------------------------------

    def note_stop(self, *, is_kept: bool = True) -> None:
        """is_kept: whether acknowledged commits are durable, or are on the slave that takes over."""
        if not is_kept:
            self.final.clear()
            return
        self.lower_limits |= {group: self.least_offset(group) for group in self.answered}
        self.limited_by_crash.clear()
        self.final |= {group: answered[-1][1] for group, answered in self.answered.items()}
        self.final = {group: offset for group, offset in self.final.items() if not self._pending_offsets(group)}
        assert all(offset <= self.greatest[group] for group, offset in self.final.items()), (self.final, self.greatest)

    def note_crash(self, persisted_within_ms: int | None, died_ns: int) -> None:
        """persisted_within_ms: the time until a commit is durable, None if unknown.

        The persisted offset is at least that of the newest commit before that time. Limits from an earlier crash no
        longer apply.
        """
        self.final.clear()
        for group in self.limited_by_crash:
            del self.lower_limits[group]
        self.limited_by_crash.clear()
        assert all(each.timed_out_in in (None, self.life) for each in self._unanswered), "pending commits only"
        if persisted_within_ms is None:
            return
        durable_until_ns = died_ns - persisted_within_ms * 1_000_000
        for group, answered in self.answered.items():
            older = [number for number, (at_ns, _) in enumerate(answered) if at_ns < durable_until_ns]
            if older:
                least = self._least_pending_offset(group, min(offset for _, offset in answered[older[-1] :]))
                if least > self.lower_limits.get(group, -1):
                    self.lower_limits[group] = least
                    self.limited_by_crash.add(group)

    def end_life(self) -> None:
        self.life += 1
        self.answered.clear()
        self._drop_timed_out_commits()

    def note_loaded_offsets(self, offsets: Mapping[Group, int]) -> None:
        """Record the durable offsets after a start. A negative offset means an unknown group."""
        self.at = {group: offset for group, offset in offsets.items() if offset >= 0}
        self.final = dict(self.at)
        self._lower_offsets({group: max(offset, 0) for group, offset in offsets.items()})

    def lower_to_ends(self, ends: Mapping[Queue, int]) -> None:
        """Record that a start lowered offsets to queue ends. Commits in flight may still be executed."""
        limits = {group: ends.get(group[1:], 0) for group in self.greatest}
        self._lower_offsets(limits)
        self.final = {group: min(offset, limits[group]) for group, offset in self.final.items()}

    def may_be_lowered_to(self, ends: Mapping[Group, int]) -> None:
        """Record that a start begins to lower offsets. A crash may end it before or after it stores them."""
        self.lower_limits |= {group: min(limit, ends.get(group, limit)) for group, limit in self.lower_limits.items()}

    def _lower_offsets(self, limits: Mapping[Group, int]) -> None:
        for group, limit in limits.items():
            assert limit >= 0, (group, limit)
            self.greatest[group] = min(self.greatest[group], max([limit, *self._pending_offsets(group)]))
            if group in self.lower_limits:
                self.lower_limits[group] = min(self.lower_limits[group], limit)

    def lose_newest_file(self) -> None:
        """Record that the newest file is unreadable, so the next start reads the backup."""
        self.final.clear()
        self.lower_limits.clear()
        self.limited_by_crash.clear()
        self.greatest = dict(self.greatest_ever)
