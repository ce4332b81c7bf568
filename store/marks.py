"""Marks on rare branches. A campaign counts them to prove that it reached each branch.

A simulation can also force some branches although their condition is false, if a correct store may take them at any
time (FoundationDB's BUGGIFY). Like FoundationDB's probes and rust-analyzer's cov-mark, a mark is inside its branch. It
costs one `if` when no collector is active.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MARKS: dict[str, str] = {
    "group commit again": "the shared sync did not cover a put, so the put got its own sync",
    "sync after put timeout": "a put timed out, but its sync succeeded later",
    "group commit failed": "a sync failed while puts waited for it",
    "shortest blank record": "a segment was closed by a blank record of exactly 8 bytes",
    "put waits for segment": "a put reached the end of its segment before the next segment existed",
    "segment wait timed out": "a put timed out while it waited for a new segment",
    "segment creation failed": "a disk error prevented a new segment",
    "leftover segment replaced": "a new segment replaced a file that a crash left under its name",
    "no buffer": "the pool had no free buffer for a new segment",
    "short write continued": "a commit continued after a short write",
    "commit failed": "a commit failed, and the next put was refused",
    "whole segments truncated": "recovery truncated the log before one or more whole segments",
    "incomplete files removed": "recovery removed files whose creation a crash interrupted",
    "short queue file extended": "a load extended a queue file that was shorter than its setting",
    "unknown queue files ignored": "a load found unknown files or directories among its queues",
    "checkpoint not believed": "a load replaced the times of a damaged checkpoint by zeros",
    "file creation postponed": "the disk was too full for a queue or index file, so dispatch creates the file later",
    "gap between segments": "segments were missing between existing ones, and all existing ones were kept",
    "damaged record skipped": "recovery skipped damage in a segment that a crash cannot have damaged",
    "hole in queue filled": "recovery filled a hole in a queue with blank entries",
    "queue truncated": "recovery removed queue entries that pointed past the end of the log",
    "queue entries rewritten": "recovery rewrote queue entries that a crash had lost",
    "index dropped": "recovery removed index files and rebuilt them",
    "index past end of log": "an index file that seemed complete pointed past the end of the log",
    "index rolls": "an index file was full, and a new one was created",
    "dispatch fails": "dispatch got an error and retries",
    "record skipped by dispatch": "dispatch skipped a record with an impossible queueOffset",
    "index file creation failed": "a disk error prevented a new index file",
    "unclean stop": "a stop could not make everything durable",
    "delivery fails": "the delivery of a delayed message failed and is retried",
    "delivery progress clamped": "the stored progress of a delay queue was past the end of the queue",
    "delivery progress rebuilt": "delivery progress was damaged, so it was rebuilt from the copies in the log",
    "backup read": "a side file was missing or unreadable, so its backup was used",
    "accounts edited": "an administrator changed the file with the accounts",
    "half message put back": "an undecided half message was put again at the end of its queue",
    "half message given up": "a half message was given up after too many checks",
    "op message stored late": "the op message of a decision could not be stored at once and was stored later",
    "segment expired": "retention removed a segment",
    "queue removed": "command 306 removed a queue without messages",
    "expired segment not removed": "an expired segment could not be removed",
    "first message in light queue": "a light queue got its first message",
    "pull below minimum offset": "a pull started before the first offset of its queue",
    "pull past maximum offset": "a pull started after the end of its queue",
    "directory in use at start": "a store did not start because another instance held its directory",
    "slave started without log": "a slave without a log began at its master's last segment",
    "slave diverged": "a slave found that its log differs from its master's log",
    "slave offset past master's log": "a slave reported an offset past the end of its master's log",
    "clock stepped back": "the clock was before the last time in the log, so the log's time was used",
}

Observer = Callable[[str], None]
_collecting: list[tuple[Counter[str], Observer | None]] = []


def count_mark(name: str) -> None:
    if _collecting:
        assert name in MARKS, name
        hits, observer = _collecting[-1]
        hits[name] += 1
        if observer is not None:
            observer(name)


@contextmanager
def marks_collected(observer: Observer | None = None) -> Iterator[Counter[str]]:
    """Count the marks reached inside a `with` block. Only the innermost block counts.

    observer: called with each mark.
    """
    hits: Counter[str] = Counter()
    _collecting.append((hits, observer))
    try:
        yield hits
    finally:
        _collecting.pop()


FORCIBLE = (
    "group commit again",
    "short write continued",
    "no buffer",
    "checkpoint not believed",
    "index dropped",
    "delivery fails",
)
"""Marks of branches that a simulation may force. A forced branch costs time or a retry, and breaks no guarantee."""

assert MARKS.keys() >= set(FORCIBLE), FORCIBLE

_forcing: list[Callable[[str], bool]] = []


def is_forced(name: str) -> bool:
    """Return whether the simulation takes this mark's branch although the condition is false."""
    assert name in FORCIBLE, name
    return bool(_forcing) and _forcing[-1](name)


@contextmanager
def marks_forced(decide: Callable[[str], bool]) -> Iterator[None]:
    """Inside a `with` block, force the branches of FORCIBLE marks for which `decide` returns True."""
    _forcing.append(decide)
    try:
        yield
    finally:
        _forcing.remove(decide)
