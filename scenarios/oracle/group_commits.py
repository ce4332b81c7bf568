"""Group commits: committed offsets of consumer groups, and the offsets that a start may find.

acknowledged commit     the group has that offset, or that of a later commit
other commit            the group may have that offset from now on, while the present life may execute the commit
clean stop              keeps acknowledged commits; without pending ones, the next start finds exactly the last offset
crash                   loses only commits acknowledged within the last interval of persisting
recovery                lowers the offset of a group to the end of its queue, durably
corrupt file            the next start finds the backup
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from .group_delivery import Queue

Group = tuple[str, str, int]
"""Group, topic, queue id."""


@dataclass(slots=True, eq=False)
class Commit:
    """One request of a consumer to store an offset."""

    group: Group
    offset: int
    asked_in: int
    is_answered: bool = False
    given_up_in: int | None = None
    """The life in which the consumer stopped waiting for the answer; None while the consumer waits."""


@dataclass(slots=True, eq=False)
class GroupCommits:
    """The commits to one store, or to one broker and the slave that takes its place."""

    at: dict[Group, int] = field(default_factory=dict)
    """The last committed or loaded offset."""
    furthest: dict[Group, int] = field(default_factory=dict)
    """Group -> greatest committed offset that no recovery has lowered."""
    furthest_ever: dict[Group, int] = field(default_factory=dict)
    kept: dict[Group, int] = field(default_factory=dict)
    """Group -> least offset that the group may have after the ends of earlier lives."""
    kept_by_crash: set[Group] = field(default_factory=set)
    """Groups whose offset in `kept` follows from a crash."""
    final: dict[Group, int] = field(default_factory=dict)
    """Group -> exact offset that the group must have after a clean stop or a start."""
    life: int = field(default=0, compare=False)
    """Ended lives."""
    answered: dict[Group, list[tuple[int, int]]] = field(default_factory=dict, compare=False)
    """Acknowledged commits of this life: request time and offset."""
    _unanswered: list[Commit] = field(default_factory=list, compare=False)
    """Commits that the broker may still execute: in flight, or given up in this life."""

    @contextmanager
    def committing(self, group: Group, offset: int, now_ns: Callable[[], int]) -> Iterator[Commit]:
        """Record a commit, and after the `with` block the answer to the commit.

        The consumer may die inside the block.
        """
        assert offset >= 0, (group, offset)
        commit = Commit(group, offset, self.life)
        self.at[group] = offset
        self.final.pop(group, None)
        for furthest in (self.furthest, self.furthest_ever):
            furthest[group] = max(furthest.get(group, 0), offset)
        if group in self.kept:
            self.kept[group] = min(self.kept[group], offset)
        self._unanswered.append(commit)
        try:
            yield commit
        finally:
            commit.given_up_in = self.life
            if commit.is_answered:
                self._unanswered.remove(commit)
                if commit.asked_in == self.life:
                    self.answered.setdefault(group, []).append((now_ns(), offset))
            else:
                self._drop_given_up_commits()

    def _drop_given_up_commits(self) -> None:
        """Drop commits that a client gave up in an earlier life: the broker can no longer execute them."""
        self._unanswered = [each for each in self._unanswered if each.given_up_in in (None, self.life)]

    def least_offset(self, group: Group) -> int:
        answered = self.answered.get(group)
        return self._least_pending_offset(group, answered[-1][1] if answered else self.kept.get(group, 0))

    def _least_pending_offset(self, group: Group, offset: int) -> int:
        return min([offset, *self._pending_offsets(group)])

    def _pending_offsets(self, group: Group) -> list[int]:
        return [each.offset for each in self._unanswered if each.group == group]

    # -- lives -------------------------------------------------------------------------------------

    def note_stop(self, *, is_kept: bool = True) -> None:
        """is_kept: whether acknowledged commits are durable, or at a slave that takes over."""
        if not is_kept:
            self.final.clear()
            return
        self.kept |= {group: self.least_offset(group) for group in self.answered}
        self.kept_by_crash.clear()
        self.final |= {group: answered[-1][1] for group, answered in self.answered.items()}
        self.final = {group: offset for group, offset in self.final.items() if not self._pending_offsets(group)}
        assert all(offset <= self.furthest[group] for group, offset in self.final.items()), (self.final, self.furthest)

    def note_crash(self, persisted_within_ms: int | None, died_ns: int) -> None:
        """persisted_within_ms: the time until a commit is durable, None if unknown.

        The persisted offset is at least that of the newest commit before this time. Limits from an earlier crash no
        longer apply.
        """
        self.final.clear()
        for group in self.kept_by_crash:
            del self.kept[group]
        self.kept_by_crash.clear()
        assert all(each.given_up_in in (None, self.life) for each in self._unanswered), "pending commits only"
        if persisted_within_ms is None:
            return
        durable_until_ns = died_ns - persisted_within_ms * 1_000_000
        for group, answered in self.answered.items():
            older = [number for number, (at_ns, _) in enumerate(answered) if at_ns < durable_until_ns]
            if older:
                least = self._least_pending_offset(group, min(offset for _, offset in answered[older[-1] :]))
                if least > self.kept.get(group, -1):
                    self.kept[group] = least
                    self.kept_by_crash.add(group)

    def end_life(self) -> None:
        self.life += 1
        self.answered.clear()
        self._drop_given_up_commits()

    def note_found(self, offsets: Mapping[Group, int]) -> None:
        """Record the durable offsets after a start. Negative: the group is unknown."""
        self.at = {group: offset for group, offset in offsets.items() if offset >= 0}
        self.final = dict(self.at)
        self._lower_offsets({group: max(offset, 0) for group, offset in offsets.items()})

    def lower_to_ends(self, ends: Mapping[Queue, int]) -> None:
        """Record that a start lowered offsets to the ends of queues. The broker may still execute pending commits."""
        limits = {group: ends.get(group[1:], 0) for group in self.furthest}
        self._lower_offsets(limits)
        self.final = {group: min(offset, limits[group]) for group, offset in self.final.items()}

    def _lower_offsets(self, limits: Mapping[Group, int]) -> None:
        for group, limit in limits.items():
            assert limit >= 0, (group, limit)
            self.furthest[group] = min(self.furthest[group], max([limit, *self._pending_offsets(group)]))
            if group in self.kept:
                self.kept[group] = min(self.kept[group], limit)

    def lose_newest_file(self) -> None:
        """Record that the newest version of the file is unreadable, so that the next start reads the backup."""
        self.final.clear()
        self.kept.clear()
        self.kept_by_crash.clear()
        self.furthest = dict(self.furthest_ever)
