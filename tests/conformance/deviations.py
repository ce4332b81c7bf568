"""Deviations: allowed differences of the two stores.

A deviation explains a difference only if our result agrees with the log itself, and the real store's result is of the
kind that the line describes. All other differences are failures.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """One kind of intended difference."""

    name: str
    line: str
    """First words of the line in docs/deviations.md: our behaviour."""
    there: str
    """The real store's behaviour."""
    promise: str
    """The invariant that the real store breaks by it; empty if none."""


ODD_FILE = Deviation(
    "odd-file",
    "a crash inside allocation leaves files of zeros after a gap, which may be too short: they are removed",
    "a file of the log or of a queue that is not as long as it should be: load() returns false",
    "START",
)
EMPTY_QUEUE_FILE = Deviation(
    "empty-queue-file",
    "a crash inside allocation leaves files of zeros after a gap, which may be too short: they are removed",
    "5.3.3 reads in front of the last file of a queue if that holds no entry: load() returns false",
    "START",
)
GAP = Deviation(
    "gap",
    "segments before and after a gap in the log are kept and served, and the gap is reported",
    "a hole between two files of the log is not noticed: dispatch and walks of the log stop there",
    "PREFIX",
)
TORN_RECORD = Deviation(
    "torn-record",
    "recovery rejects a record with a zero byte in its topic, at the end of its properties",
    "a record whose body has its CRC counts, whatever became of its topic and properties",
    "PREFIX",
)
FOREIGN_RECORD = Deviation(
    "foreign-record",
    "recovery checks that a record's physicalOffset is where it lies",
    "a record of another place in the log counts, where it lies now",
    "PREFIX",
)
QUEUE_TAIL_LOST = Deviation(
    "queue-tail-lost",
    "queues are brought to exactly the log's contents on every load",
    "a queue that ends before its last record stays so, as another queue has come further",
    "CQ-COMPLETE",
)
QUEUE_HEAD_LOST = Deviation(
    "queue-head-lost",
    "queues are brought to exactly the log's contents on every load",
    "a lost queue is built again from where recovery of the log begins; blanks stand for what is in front",
    "CQ-COMPLETE",
)
QUEUE_SHIFTED = Deviation(
    "queue-shifted",
    "a hole in a queue is filled with blank entries",
    "entries behind a hole move up: an entry's index is not its record's queueOffset any more",
    "CQ-VALID",
)
ZERO_ENTRY = Deviation(
    "zero-entry",
    "queues are brought to exactly the log's contents on every load",
    "entries of zeros, which a crash left, count as messages",
    "CQ-VALID",
)
TORN_ENTRY = Deviation(
    "torn-entry",
    "queues are brought to exactly the log's contents on every load",
    "an entry of which a crash has left a part is taken as it is",
    "CQ-VALID",
)
DANGLING_ENTRY = Deviation(
    "dangling-entry",
    "entries before a queue's first record that point into the scanned part of the log become blank",
    "an entry that leads to no record of its queue, or beyond the log, is kept",
    "CQ-VALID",
)
EXPIRED_ENTRY = Deviation(
    "expired-entry",
    "a queue begins at its first entry with a record in the log",
    "a queue whose first file has expired entries alone begins with them; "
    "that of log offset 0 returns the first record of the log, of any queue",
    "CLEAN",
)
DELAY_LEVELS = Deviation(
    "delay-levels",
    "delay levels are parsed before recovery",
    "entries of delayed messages that recovery makes have the tag's hash where the time should be that they are due",
    "SCHED",
)
INDEX_LOST = Deviation(
    "index-lost",
    "after an unclean exit the index is built again after the last file that is full",
    "the newest index file is deleted, and only what recovery scans is indexed again",
    "IDX",
)
INDEX_TWICE = Deviation(
    "index-twice",
    "after an unclean exit the index is built again after the last file that is full",
    "the last record of a full index file is indexed again when it is replayed, and found twice",
    "IDX",
)
INDEX_NAME_TAKEN = Deviation(
    "index-name-taken",
    "an index file is made when a key needs it; its name is the clock's time in ms, increased until it is the greatest",
    "an index file that is made in the same millisecond as the one before is that one: its entries are written over",
    "IDX",
)
INDEX_HASH_ONLY = Deviation(
    "index-hash-only",
    "a query by key verifies topic and key",
    "messages whose keys have the same hash are found, too; one with two such keys twice",
    "",
)
INDEX_STALE = Deviation(
    "index-stale",
    "index files that lead beyond the log's end, have another length or any defect are removed",
    "an index file is believed: look-ups lead to whatever is at an offset now",
    "IDX",
)

INDEX_SECONDS = Deviation(
    "index-seconds",
    "a query by key verifies topic and key",
    "an index file knows times to the second, its first entry's from the file before: a window lacks some at its edges",
    "",
)
FILE_TIMES = Deviation(
    "file-times",
    "segments keep their mtimes over recovery",
    "a look-up by time picks a queue file by its mtime, which recovery changes, also if all its entries have expired",
    "",
)
TIME_OF_NOTHING = Deviation(
    "time-of-nothing",
    "an entry without a record costs a pull, and a look-up by time, that entry",
    "a blank entry has the time of the log's first record; an empty file or an unreadable entry ends the search at 0",
    "",
)

DEVIATIONS: dict[str, Deviation] = {each.name: each for each in list(globals().values()) if isinstance(each, Deviation)}
