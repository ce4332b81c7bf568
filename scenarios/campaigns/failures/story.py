"""The story of a failure: the ten lines before a promise broke that concern the violation.

An event concerns it that touched the bytes it points at, or the record of a message it names; less so one of the same
file, of the task that waited or died, or the end of a machine. Of equals the last are told; the rest is counted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....sim.trace import TraceEvent
from ...claims.machine import ROOT
from ...oracle.evidence import Violation
from ...oracle.ledger import Ledger
from ...oracle.put_entry import PutEntry

STORY_LINES = 10
_UNTOLD = ("switch", "start")
_RANGE = re.compile(r"(.*) \[(\d+), (\d+)\)")
"""How writes tell what they wrote: path, first byte, and the one behind the last."""
_NAME = re.compile(r"\bm\d+\.(\d+)\.\d+(?:\.\d+)?\b")
"""How messages are called: life, producer, number, and number in a batch."""
_PATH = re.compile(rf"{ROOT}/[^\s:,()']+")
_LOG = f"{ROOT}/commitlog"
_BYTES, _FILE, _TASK, _OTHER = 3, 2, 1, 0
_TASK_OF = (
    ("dispatch", "dispatch"),
    ("committed", "commit-real-time"),
    ("durable", "flush"),
    ("durable", "group-commit"),
    ("delayed", "schedule"),
    ("consumequeue/", "dispatch"),
    ("/index/", "dispatch"),
    ("IDX", "dispatch"),
    ("waited", "group-commit"),
)
"""What in a violation says that a service has to do with it."""


@dataclass(slots=True)
class Concern:
    """What violations are about: bytes of files, files, directories, and tasks."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    """Path of a file, first byte, and the one behind the last; of the log and of a queue the directory, and offsets."""
    paths: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    """Names without their machines."""
    names: list[str] = field(default_factory=list)
    """What is said to be told of."""

    def weight(self, event: TraceEvent) -> int:
        """Return how much an event has to do with it."""
        if event.kind == "kill":
            return _FILE
        path, start, stop = _place(event.text)
        if stop > start and any(self._covers(span, path, start, stop) for span in self.ranges):
            return _BYTES
        if any(path == known or path.startswith(f"{known}/") for known in self.paths):
            return _FILE
        if any(known.rpartition("/")[0] == path for known in self.paths):
            return _TASK  # a name in its directory may be a file's
        return _TASK if event.task.rpartition("/")[2] in self.tasks else _OTHER

    def _covers(self, span: tuple[str, int, int], path: str, start: int, stop: int) -> bool:
        known, first, end = span
        directory, _, base = path.rpartition("/")
        if directory == known and base.isdecimal():
            start, stop = int(base) + start, int(base) + stop
        elif path != known:
            return False
        return start < end and first < stop


def concern_of(violations: Sequence[Violation], ledger: Ledger | None) -> Concern:
    """Return what violations are about; ledger: of the run, to know where the messages are that they name."""
    concern = Concern()
    for violation in violations[:1]:
        _add_place(concern, violation)
        text = f"{violation.summary} {violation.expected} {violation.found}"
        concern.paths |= set(
            _PATH.findall(violation.summary + violation.detail)
        )  # where errors name their files
        concern.tasks |= {
            line.partition(":")[0] for line in violation.detail.splitlines() if "last error" in line
        }
        for match in _NAME.finditer(text):
            name, producer = match[0], match[1]
            put = None if ledger is None else ledger.by_name.get(name)
            if put is not None:
                _add_put(concern, put)
            if name not in concern.names:
                concern.names.append(name)
            concern.tasks.add(f"producer-{producer}")
        known = f"{violation.invariant} {violation.file} {violation.summary.splitlines()[0]}"
        concern.tasks |= {task for word, task in _TASK_OF if word in known}
        concern.tasks |= set(re.findall(r"[\w-]+/([\w -]+?) (?:died|waits|sleeps)", violation.summary))
    concern.names += sorted(path.removeprefix(f"{ROOT}/") for path in concern.paths)
    concern.names += sorted(concern.tasks)
    return concern


def _add_files(concern: Concern, events: Iterable[TraceEvent]) -> None:
    """Add the files that hold the ranges of directories: of those that events are about, the last that begins there."""
    begins: dict[str, set[int]] = {}
    for event in events:
        directory, _, base = _place(event.text)[0].rpartition("/")
        if base.isdecimal():
            begins.setdefault(directory, set()).add(int(base))
    for directory, first, _ in concern.ranges:
        bases = [base for base in begins.get(directory, ()) if base <= first]
        if bases:
            concern.paths.add(f"{directory}/{max(bases):020}")


def _add_place(concern: Concern, violation: Violation) -> None:
    """Add the file that a violation points into: a path, one below the root, or the log as a whole."""
    if not violation.file:
        return
    path = violation.file if violation.file.startswith("/") else f"{ROOT}/{violation.file}"
    if violation.offset >= 0:
        concern.ranges.append((path, violation.offset, violation.offset + 1))
    if path != _LOG:
        concern.paths.add(path)


def _add_put(concern: Concern, put: PutEntry) -> None:
    """Add the record of a message, and the queue it is in."""
    if put.physical_offset is not None:
        concern.ranges.append((_LOG, put.physical_offset, put.physical_offset + put.record_bytes))
    if put.queue_offset is not None:
        topic, queue_id = put.place
        concern.ranges.append(
            (f"{ROOT}/consumequeue/{topic}/{queue_id}", put.queue_offset * 20, put.queue_offset * 20 + 20)
        )


def _place(text: str) -> tuple[str, int, int]:
    """Return the path that an event's text begins with, and the bytes that it says, none if it says none."""
    match = _RANGE.fullmatch(text)
    return (text, 0, 0) if match is None else (match[1], int(match[2]), int(match[3]))


def story_of(
    events: Iterable[TraceEvent], violations: Sequence[Violation], ledger: Ledger | None = None
) -> list[str]:
    """Return at most STORY_LINES lines, oldest first: what concerns violations, and how much else there was."""
    told = [event for event in events if not _is_untold(event)]
    if len(told) <= STORY_LINES:
        return [_line(event) for event in told]
    concern = concern_of(violations, ledger)
    _add_files(concern, told)
    weighed = sorted(((concern.weight(event), number) for number, event in enumerate(told)), reverse=True)
    chosen = sorted(number for _, number in weighed[: STORY_LINES - 1])
    about = f", these concern {', '.join(concern.names[:4])}" if concern.names else ""
    left_out = f"{len(told) - len(chosen):,} of {len(told):,} events are left out{about}"
    return [left_out, *(_line(told[number]) for number in chosen)]


def _is_untold(event: TraceEvent) -> bool:
    """Return whether an event says nothing: a task ends when its work does, or because the judge has ended it."""
    if event.kind == "end":
        return ": " not in event.text or ": BrokenPromise(" in event.text
    return event.kind in _UNTOLD


def _line(event: TraceEvent) -> str:
    what = event.text.replace(f"{ROOT}/", "")
    return f"{event.now_ns / 1e6:9.3f} ms  {event.task}: {event.kind} {what}"
