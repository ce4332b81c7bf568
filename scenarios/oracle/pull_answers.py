"""Pull answers: status and offsets of each answer of a master to a pull, also of one without messages (READ, CLEAN).

`consumers.check_offsets` has the offsets of each status. No answer passes over a message that the consumer wants.
Between two starts the bounds of a queue only grow. So an answer moves a consumer back at most to the end that the
recovery found or an earlier answer had.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from ...store.formats.messages import GetMessageStatus
from .evidence import Violation, record_tried
from .group_delivery import Queue
from .invariants import consumers
from .invariants.consumers import PullBounds
from .invariants.lookups import QueueBounds
from .ledger import Ledger

_NOTHING_KNOWN = QueueBounds(0, 0)


class PullAnswers:
    """The bounds of one broker's queues, as recovered and as answered since its last start."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[Queue, QueueBounds] = {}

    def begin_life(self) -> None:
        self._known.clear()

    def note_recovery(self, ends: Mapping[Queue, int]) -> None:
        """ends: the queue ends that the recovery found."""
        self._known = {queue: QueueBounds(0, end) for queue, end in ends.items()}

    def known_bounds(self, queue: Queue) -> QueueBounds:
        """Return the least bounds that an answer may have from now on, until the broker restarts."""
        return self._known.get(queue, _NOTHING_KNOWN)

    def check_bounds(self, queue: Queue, found: QueueBounds, before: QueueBounds) -> Iterator[Violation]:
        """Yield answers to requests for the bounds of a queue that are less than `before`, known at the requests."""
        record_tried("READ")
        if found.low < before.low or found.high < before.high:
            expected = f"minOffset >= {before.low}, maxOffset >= {before.high}"
            yield _violation(f"the bounds of {queue[0]}/{queue[1]} go back", expected, f"{found.low}, {found.high}")

    def check_answer(
        self,
        queue: Queue,
        position: int,
        status: GetMessageStatus,
        bounds: PullBounds,
        before: QueueBounds,
        *,
        wants: Callable[[bytes], bool],
        offsets: Collection[int] | None = None,
    ) -> Iterator[Violation]:
        """Yield each error in an answer to a request since the broker's last start.

        before: `known_bounds` at the request. wants: returns whether a message with these properties matches. offsets:
        the queue offsets of the messages in the answer; None if FOUND is not to be checked for omitted messages.
        """
        yield from consumers.check_offsets(queue, position, status, bounds)
        low, following, high = bounds
        name = f"{queue[0]}/{queue[1]}"
        if low < before.low or high < before.high or (low and not self._ledger.expired_to):
            expected = f"minOffset >= {before.low}, maxOffset >= {before.high}"
            yield _violation(f"the bounds of {name} go back", expected, f"{low}, {high}")
        known = self.known_bounds(queue)
        self._known[queue] = QueueBounds(max(known.low, low), max(known.high, high))
        if self._ledger.tears or (status is GetMessageStatus.FOUND and offsets is None):
            return
        if following - position > len(offsets or ()):
            is_moved = status is GetMessageStatus.OFFSET_TOO_SMALL
            yield from consumers.check_skipped_messages(
                self._ledger, queue, position, following, offsets=offsets or (), wants=None if is_moved else wants
            )


def _violation(summary: str, expected: str, found: str) -> Violation:
    return Violation("READ", summary, "answer to a pull", -1, "offsets", expected, found)
