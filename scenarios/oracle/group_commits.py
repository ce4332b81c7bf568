"""Group commits: the offsets that consumers have asked a broker to keep, and where their group may be found.

a commit that was answered      the group is there, or where it has committed since
one that was not                the group may be there from now on, as long as its broker may carry it out
a clean stop                    keeps what was answered
a crash                         takes what was answered less than an interval of persisting ago, and nothing older
a recovery                      takes the group back to the queue's end, durably
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .evidence import Violation, tried
from .group_delivery import Queue


@dataclass(slots=True, eq=False)
class Commit:
    """One request of a consumer to keep an offset."""

    queue: Queue
    offset: int
    asked_in: int
    is_answered: bool = False
    given_up_in: int | None = None
    """The life in which nobody waited for its answer any more; None: somebody does."""


class GroupCommits:
    """Of one group, at one broker and whoever takes its place."""

    def __init__(self, now_ns: Callable[[], int] = int) -> None:
        """now_ns: the time of the run."""
        self._now_ns = now_ns
        self._life = 0
        """How many lives of the broker have ended."""
        self._furthest: dict[Queue, int] = {}
        """The greatest offset that the group has ever asked to be kept, and that no recovery has taken."""
        self._furthest_ever: dict[Queue, int] = {}
        """The same, and what recoveries have taken."""
        self._answered: dict[Queue, list[tuple[int, int]]] = {}
        """Those of this life whose request was answered in it: when, and the offset."""
        self._unanswered: list[Commit] = []
        """Those that may be carried out at any time: somebody waits for the answer, or has given up in this life."""
        self._kept: dict[Queue, int] = {}
        """The least that ends of lives have kept."""
        self._kept_by_crash: set[Queue] = set()
        """Of which queues it was a crash that has kept it."""

    @contextmanager
    def committing(self, queue: Queue, offset: int) -> Iterator[Commit]:
        """Note that an offset is being committed, and in the end what came of it; its consumer may die meanwhile."""
        commit = Commit(queue, offset, self._life)
        for furthest in (self._furthest, self._furthest_ever):
            furthest[queue] = max(furthest.get(queue, 0), offset)
        if queue in self._kept:
            self._kept[queue] = min(self._kept[queue], offset)
        self._unanswered.append(commit)
        try:
            yield commit
        finally:
            commit.given_up_in = self._life
            if commit.is_answered:
                self._unanswered.remove(commit)
                if commit.asked_in == self._life:
                    self._answered.setdefault(queue, []).append((self._now_ns(), offset))
            else:
                self._forget()

    def _forget(self) -> None:
        """Forget those that nobody waits for and that a life which has ended took with it."""
        self._unanswered = [each for each in self._unanswered if each.given_up_in in (None, self._life)]

    def check(self, queue: Queue, offset: int, *, asked_in: int | None) -> Iterator[Violation]:
        """Yield what is wrong with a committed offset that is answered.

        asked_in: in which life the broker was asked. An earlier one has not seen what came since, nor what a recovery
        has taken; its answer may have been under way for long. None: a slave was asked, which may be behind any time.
        """
        tried("META")
        is_of_now = asked_in == self._life
        low = self._least(queue) if is_of_now else 0
        high = (self._furthest if is_of_now else self._furthest_ever).get(queue, 0)
        where = f"the group's offset in {queue[0]}/{queue[1]}"
        if offset < low and queue in self._kept_by_crash and queue not in self._answered:
            summary = f"{where} is taken back by more than an interval of persisting"
            yield Violation("REDEL", summary, field="offset", expected=f">= {low}", found=str(offset))
        elif not low <= offset <= high:
            summary = f"{where} is none that was committed"
            yield Violation("META", summary, field="offset", expected=f"{low} to {high}", found=str(offset))

    def _least(self, queue: Queue) -> int:
        """Return the least offset at which the group may be in this life."""
        answered = self._answered.get(queue)
        return self._or_unanswered(queue, answered[-1][1] if answered else self._kept.get(queue, 0))

    def _or_unanswered(self, queue: Queue, offset: int) -> int:
        return min([offset, *(each.offset for each in self._unanswered if each.queue == queue)])

    # -- lives -------------------------------------------------------------------------------------

    def note_kept(self) -> None:
        """Note that what was answered is durable, or that a slave has it which is about to take over."""
        self._kept |= {queue: self._least(queue) for queue in self._answered}
        self._kept_by_crash.clear()

    def note_crash(self, persisted_within_ms: int | None, died_ns: int) -> None:
        """Note that a machine died then; after how long an answered commit is durable, None: nobody knows.

        What is persisted is what counts at that moment: the newest that is old enough, or one that came later. What an
        earlier crash has left is claimed until this one only, as of a lone consumer's groups.
        """
        for queue in self._kept_by_crash:
            del self._kept[queue]
        self._kept_by_crash.clear()
        if persisted_within_ms is None:
            return
        tried("REDEL")
        durable_until_ns = died_ns - persisted_within_ms * 1_000_000
        for queue, answered in self._answered.items():
            older = [number for number, (at_ns, _) in enumerate(answered) if at_ns < durable_until_ns]
            if older:
                least = self._or_unanswered(queue, min(offset for _, offset in answered[older[-1] :]))
                if least > self._kept.get(queue, -1):
                    self._kept[queue] = least
                    self._kept_by_crash.add(queue)

    def end_life(self) -> None:
        """Begin another life of the broker."""
        self._life += 1
        self._answered.clear()
        self._forget()

    def take_back(self, ends: Mapping[Queue, int]) -> None:
        """Note that a start has taken the group back to the ends of queues, but for what may still be committed."""
        for queue, furthest in self._furthest.items():
            end = ends.get(queue, 0)
            coming = [each.offset for each in self._unanswered if each.queue == queue]
            self._furthest[queue] = min(furthest, max([end, *coming]))
            if queue in self._kept:
                self._kept[queue] = min(self._kept[queue], end)
