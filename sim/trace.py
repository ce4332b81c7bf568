"""Digest and trace: the hash of a run, and an optional list of its events.

Runs with the same digest made the same decisions and file operations. A trace does not change the digest.
"""

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .machine import Scheduler, SimTask, WaitReason

FOLDED_AT_WORDS = 8192
"""Number of pending words at which to call `hash_pending_words`: large, so the call costs little per word."""


class RollingDigest:
    """A hash of pairs of words. Invariant: hash(earlier words), continued with the pending words, is the digest."""

    __slots__ = ("_hash", "_kept", "note", "pending")

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.pending: list[int] = []
        self._kept: array[int] | None = None
        # This is a C method, because a Python call would be slower.
        self.note: Callable[[tuple[int, int]], None] = self.pending.extend
        """Adds two integers, 0 <= x < 2**64. Larger integers raise OverflowError in the next `hash_pending_words`."""

    def hash_pending_words(self) -> None:
        words = self.pending
        assert len(words) % 2 == 0, "notes are pairs"
        self._hash.update(_little_endian(words))
        if self._kept is not None:
            self._kept.extend(words)
        words.clear()

    def hexdigest(self) -> str:
        so_far = self._hash.copy()
        so_far.update(_little_endian(self.pending))
        return so_far.hexdigest()

    def keep_all_words(self) -> None:
        """Keep every word, to compare runs. Call this before the first `note`."""
        assert not self.pending, "the first words are gone"
        self._kept = array("Q")

    def all_words(self) -> "array[int]":
        assert self._kept is not None, "words were not kept"
        return self._kept + array("Q", self.pending)

    def count_words(self) -> int:
        assert self._kept is not None, "words were not kept"
        return len(self._kept) + len(self.pending)


class TraceEvent(NamedTuple):
    """One event. `step` counts scheduling points; `task` is the running task."""

    now_ns: int
    step: int
    task: str
    kind: str
    text: str
    place: str = ""
    """The line of the code under test, if the trace finds it."""

    def __str__(self) -> str:
        return f"{self.now_ns / 1e6:12.6f} ms  step {self.step:<7} {self.task:<24} {self.kind:<8} {self.text}"


class TraceRecording(NamedTuple):
    """The data of one run for a comparison. Can be pickled."""

    events: list[TraceEvent]
    words_before: "array[int]"
    """Number of digest words before each event."""
    words: "array[int]"


class Trace:
    """The events of one kernel, oldest first.

    The kernel adds `start`, `end`, `switch` and `kill` events. Other callers test `if kernel.trace is not None` first.
    `on_parked`, `on_ready` and `emit` add no event; subclasses override them.
    """

    def __init__(self, *, to_compare: bool = False) -> None:
        """to_compare: keep the digest words for `recording`."""
        self._events: list[TraceEvent] = []
        self._words_before: array[int] | None = array("Q") if to_compare else None
        self._kernel: Scheduler | None = None
        self._digest: RollingDigest | None = None

    def attach_to_kernel(self, kernel: Scheduler, digest: RollingDigest) -> None:
        self._kernel, self._digest = kernel, digest
        if self._words_before is not None:
            digest.keep_all_words()

    def add_event(self, kind: str, text: str) -> None:
        kernel = self._kernel
        assert kernel is not None, "a trace belongs to a kernel"
        self._events.append(TraceEvent(kernel.now_ns, kernel.steps, kernel.current.name, kind, text, self.code_place()))
        if self._words_before is not None:
            assert self._digest is not None, "a trace belongs to a kernel"
            self._words_before.append(self._digest.count_words())

    def code_place(self) -> str:
        """Return the running line of the code under test. A plain trace does not know this code."""
        return ""

    def text_of_data(self, kind: str, label: str, data: bytes) -> str:
        """Describe data on a connection. kind: "send" or "receive". label: "host:port>host:port", the sender first."""
        return f"{len(data)} bytes"

    def on_parked(self, why: WaitReason) -> None:
        """Called when the current task blocks."""

    def on_ready(self, task: SimTask) -> None:
        """Called when a blocked task can run again."""

    def emit(self, fact: object) -> None:
        """Called by the kernel's driver with a fact about the run."""

    def recording(self) -> TraceRecording:
        assert self._digest is not None, "a trace belongs to a kernel"
        assert self._words_before is not None, "the trace was not made to compare"
        return TraceRecording(self._events, self._words_before, self._digest.all_words())

    def last_events(self, count: int) -> list[TraceEvent]:
        return self._events[-count:] if count > 0 else []

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)


def _little_endian(words: list[int]) -> bytes:
    packed = array("Q", words)  # in the machine's byte order, on which the digest must not depend
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
