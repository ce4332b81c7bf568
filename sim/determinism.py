"""Determinism check: makes a run twice under the guard, and finds the first difference."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from .errors import NondeterminismError
from .guard import leak_guard
from .trace import Trace, TraceEvent, TraceRecording

T = TypeVar("T")
Traced = Callable[[Trace | None], str]
"""Function that makes a complete run, adds its events to the trace if given, and returns the digest."""
_TRIES = 3


def run_guarded(run: Callable[[], T]) -> T:
    """Call run under the guard. Raises LeakError after a leak, even if the code under test caught it."""
    with leak_guard() as leaks:
        result = run()
    if leaks:
        raise leaks[0]
    return result


def check_determinism(run: Traced) -> str:
    """Call run twice under the guard, and return the digest of both runs.

    Raises NondeterminismError if the digests differ, and LeakError as `run_guarded` does.
    """
    first, second = run_guarded(partial(run, None)), run_guarded(partial(run, None))
    require_same_digest(first, second, run)
    return first


def require_same_digest(first: str, second: str, again: Traced) -> None:
    if first != second:
        raise NondeterminismError(first, second, _find_difference(again))


def _find_difference(run: Traced) -> str:
    before = record_trace(run)
    for _ in range(_TRIES):
        after = record_trace(run)
        difference = first_difference(before, after)
        if difference is not None:
            return difference
        before = after
    return f"{_TRIES + 1} more runs were all the same, so the difference is not in every run"


def record_trace(run: Traced) -> TraceRecording:
    trace = Trace(to_compare=True)
    run(trace)
    return trace.recording()


def first_difference(first: TraceRecording, second: TraceRecording) -> str | None:
    """Describe the first difference of two recordings, or return None.

    Written bytes are in the digest words but in no event, so a difference in these bytes is reported at the event
    before it.
    """
    event = _first_difference_index(first.events, second.events)
    word = _first_difference_index(first.words, second.words)
    if event is None and word is None:
        return None
    if word is not None:
        shown = bisect_right(first.words_before, word)  # number of events before the differing word
        if event is None or shown < event:
            return (
                f"the runs differ after {_event_text(first.events, shown - 1)}: "
                f"digest words {_word_pair_text(first.words, word)} in one run, "
                f"{_word_pair_text(second.words, word)} in the other"
            )
    assert event is not None, "else the words differ"
    return (
        f"the runs differ after {_event_text(first.events, event - 1)}: "
        f"{_event_text(first.events, event)} in one run, {_event_text(second.events, event)} in the other"
    )


def _first_difference_index(first: Sequence[object], second: Sequence[object]) -> int | None:
    if first == second:
        return None
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def _event_text(events: Sequence[TraceEvent], index: int) -> str:
    if index < 0:
        return "the start"
    if index >= len(events):
        return "nothing more"
    return f"event {index + 1} [{' '.join(str(events[index]).split())}]"


def _word_pair_text(words: Sequence[int], index: int) -> str:
    """Return the pair of digest words at index; the second word is the checksum of the data."""
    at = index - index % 2
    return f"({words[at]:#x}, {words[at + 1]:#x})" if at < len(words) else "nothing more"
