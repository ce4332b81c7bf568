"""Digest and trace: what a run was, as one hash that is always taken, and as a list of events for those who ask.

Two runs with the same digest made the same decisions and the same file operations. A trace costs nothing when nobody
asks for one, and changes no digest. A trace made to compare also keeps the words that the digest was made of.
"""

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .machine import Scheduler, SimTask, Waiting

FOLDED_AT_WORDS = 8192  # enough that the hash costs little more than its bytes
"""From how many pending words on a digest is to be folded."""


class RollingDigest:
    """Invariant: hash(folded words) continued with the pending words is the digest so far."""

    __slots__ = ("_hash", "_kept", "note", "pending")

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.pending: list[int] = []
        self._kept: array[int] | None = None
        # A method in C, so that a note is no call of Python's.
        self.note: Callable[[tuple[int, int]], None] = self.pending.extend
        """Takes two integers, 0 <= x < 2**64. Others are an OverflowError, a little later."""

    def fold(self) -> None:
        """Fold what was noted into the hash; to be called now and then, once FOLDED_AT_WORDS are pending."""
        words = self.pending
        assert len(words) % 2 == 0, "notes are pairs"
        self._hash.update(_little_endian(words))
        if self._kept is not None:
            self._kept.extend(words)
        words.clear()

    def hexdigest(self) -> str:
        """Return the digest of everything noted so far."""
        so_far = self._hash.copy()
        so_far.update(_little_endian(self.pending))
        return so_far.hexdigest()

    def keep_words(self) -> None:
        """Keep every word from the first on, to compare runs whose digests differ; nothing may be noted yet."""
        assert not self.pending, "the first words are gone"
        self._kept = array("Q")

    def kept_words(self) -> "array[int]":
        """Return every word noted so far; `keep_words` was called."""
        assert self._kept is not None, "words were not kept"
        return self._kept + array("Q", self.pending)

    def count_words(self) -> int:
        """Return how many words were noted so far; `keep_words` was called."""
        assert self._kept is not None, "words were not kept"
        return len(self._kept) + len(self.pending)


class TraceEvent(NamedTuple):
    """One thing that happened. step counts scheduling points, task is who was running."""

    now_ns: int
    step: int
    task: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.now_ns / 1e6:12.6f} ms  step {self.step:<7} {self.task:<24} {self.kind:<8} {self.text}"


class TraceRecording(NamedTuple):
    """A run to compare with another one; it can travel between processes."""

    events: list[TraceEvent]
    words_before: "array[int]"
    """Of each event, how many words the digest had taken before it."""
    words: "array[int]"
    """All that the digest has taken."""


class Trace:
    """The events of one kernel, oldest first.

    The kernel adds `start`, `end`, `switch` and `kill`. Others ask `if kernel.trace is not None` first.
    What `parked`, `made_ready` and `emit` are given is no event: it is for kinds of traces that draw pictures.
    """

    def __init__(self, *, to_compare: bool = False) -> None:
        """Make an empty trace. to_compare: for `recording`, which holds what the digest was made of, too."""
        self._events: list[TraceEvent] = []
        self._words_before: array[int] | None = array("Q") if to_compare else None
        self._kernel: Scheduler | None = None
        self._digest: RollingDigest | None = None

    def attach(self, kernel: Scheduler, digest: RollingDigest) -> None:
        """Take time, step and task from this kernel, and words from its digest; the kernel calls it."""
        self._kernel, self._digest = kernel, digest
        if self._words_before is not None:
            digest.keep_words()

    def add(self, kind: str, text: str) -> None:
        """Record one event, here and now."""
        kernel = self._kernel
        assert kernel is not None, "a trace belongs to a kernel"
        self._events.append(TraceEvent(kernel.now_ns, kernel.steps, kernel.current.name, kind, text))
        if self._words_before is not None:
            assert self._digest is not None, "a trace belongs to a kernel"
            self._words_before.append(self._digest.count_words())

    def parked(self, why: Waiting) -> None:
        """Take note that the current task blocks, and of what it waits for."""

    def made_ready(self, task: SimTask) -> None:
        """Take note that a task that was blocked can run again."""

    def emit(self, fact: object) -> None:
        """Take note of something that whoever drives the kernel has found out, whatever it is."""

    def recording(self) -> TraceRecording:
        """Return all of it for a comparison; the trace was made for one, and its kernel has come to an end."""
        assert self._digest is not None, "a trace belongs to a kernel"
        assert self._words_before is not None, "the trace was not made to compare"
        return TraceRecording(self._events, self._words_before, self._digest.kept_words())

    def last(self, count: int) -> list[TraceEvent]:
        """Return the newest count events, oldest first."""
        return self._events[-count:] if count > 0 else []

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)


def _little_endian(words: list[int]) -> bytes:
    packed = array("Q", words)  # of the machine's byte order; digests are the same everywhere
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
