"""Marks on rare branches: a campaign proves that it reached each of them.

A simulation can also force a branch whose condition is false, if a correct store may take it at any time
(FoundationDB's BUGGIFY). Without a collector a mark costs one test. As with FoundationDB's probes and rust-analyzer's
cov-mark, a mark is inside the code that it describes, so it moves with this code.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MARKS: dict[str, str] = {
    "group commit again": "a request was not covered by the sync it shared, so it had one of its own",
    "late sync": "a put timed out, and the sync it had waited for succeeded after all",
    "failed group": "a sync failed while puts waited for it",
    "shortest blank": "a segment was closed by a blank record of exactly 8 bytes",
    "put waits for segment": "a put came to a segment's end before the next segment was made",
    "no segment in time": "a put gave up waiting for its segment",
    "segment not made": "the disk did not give a segment",
    "leftover replaced": "a file that a crash had left was in a new segment's place",
    "no buffer": "the pool had no buffer left for a new segment",
    "short write continued": "a commit went on behind a write that wrote less than it should",
    "commit failed": "a commit failed, and the next put was refused",
    "cut across segments": "recovery cut the log in front of whole segments",
    "half-made files removed": "recovery removed files that a crash had left half made",
    "short queue file extended": "a load extended a queue file that was too short for the settings",
    "stray left alone": "a load found what is not the store's beside its queues",
    "checkpoint not believed": "a load took zeros for the times of a damaged checkpoint",
    "load without a file": "a load found no room for a file of a queue or of the index, and left that to dispatch",
    "gap between segments": "segments were missing between two others, and both sides were kept",
    "trusted damage": "recovery passed over damage in what was vouched for",
    "hole in a queue": "recovery filled a hole in a queue with blank entries",
    "queue cut": "recovery cut entries that led behind the log's end",
    "queue rewritten": "recovery wrote queue entries that a crash had taken",
    "index dropped": "recovery removed index files, to build them again",
    "index beyond log": "an index file that was taken for certain led behind the log's end",
    "index rolls": "a full index file was followed by the next",
    "dispatch fails": "dispatch met an error, and tries again",
    "record passed over": "dispatch met a record whose queueOffset cannot be its own, and went on without it",
    "index not made": "the disk did not give an index file",
    "unclean stop": "a stop could not make everything durable",
    "delivery fails": "a delayed message could not be put where it was due, and is tried again",
    "delivery progress clamped": "a delay queue was shorter than the progress in it",
    "delivery progress from the log": "delivery progress was damaged, and the copies in the log showed it",
    "backup read": "a side file was missing or unreadable, and the version before it was taken",
    "half message put back": "a half message that was not decided was put again behind the others",
    "half message given up": "a half message had been asked about too often",
    "op owed": "a decision was made whose op could not be stored, and was stored later",
    "segment expired": "retention removed a segment",
    "queue removed": "command 306 removed a queue of which nothing was left but numbers",
    "stuck segment": "a segment that was due to go would not go",
    "light queue begins": "a light queue got its first message",
    "pull before the queue": "a pull asked for what had left its queue",
    "pull beyond the queue": "a pull asked for more than its queue had ever had",
    "start on a live directory": "a store was refused because another had its directory",
    "slave begins empty": "a slave without a log began where its master's last file does",
    "slave diverged": "a slave found that its log is not what its master's is",
    "report beyond the master's end": "a slave asked for what its master's log does not have any more",
    "clock fell": "the clock was behind the time of the log, which was taken instead",
}

_collecting: list[Counter[str]] = []


def hit(name: str) -> None:
    """Count a mark, if there is a collector."""
    if _collecting:
        assert name in MARKS, name
        _collecting[-1][name] += 1


@contextmanager
def collected() -> Iterator[Counter[str]]:
    """Count the marks hit inside a `with` block. Only the innermost block counts."""
    hits: Counter[str] = Counter()
    _collecting.append(hits)
    try:
        yield hits
    finally:
        _collecting.remove(hits)


FORCIBLE = (
    "group commit again",
    "short write continued",
    "no buffer",
    "checkpoint not believed",
    "index dropped",
    "delivery fails",
)
"""Marks of branches that a simulation may force. Each costs time or a retry, and breaks no guarantee."""

assert MARKS.keys() >= set(FORCIBLE), FORCIBLE

_forcing: list[Callable[[str], bool]] = []


def forces(name: str) -> bool:
    """Return whether a simulation forces the branch of a mark now, although its condition is false."""
    assert name in FORCIBLE, name
    return bool(_forcing) and _forcing[-1](name)


@contextmanager
def forced(decide: Callable[[str], bool]) -> Iterator[None]:
    """Inside a `with` block, ask `decide` each time a forcible branch would not be taken."""
    _forcing.append(decide)
    try:
        yield
    finally:
        _forcing.remove(decide)
