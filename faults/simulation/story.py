"""Story of a failure: selects the most relevant events before it.

Events that changed or read the bytes of the failure are the most relevant. Next are events of the same file and ends of
machines, then other events of the failure's tasks and machines. Among equally relevant events, the story has the
latest, and the number of the others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...sim.trace import TraceEvent

_LEFT_OUT = ("switch", "start")
_RANGE = re.compile(r"(.*) \[(\d+), (\d+)\)(?:[ ,].*)?")  # of a write event: path, first byte, end offset
_ZEROS = re.compile(r"(?<=/)0{9,}(?=\d)")
"""The zeros before a file name of 20 digits, which would take half of a line."""
_LETTERS = re.compile(r"([a-z])\1{19,}")
BYTES, _FILE, TASK, OTHER, NO_EVIDENCE = 3, 2, 1, 0, -1
"""Relevance of an event. An event that is no evidence does not fill a short story either."""
REPORTS = ("fault", "damaged", "power", "error", "recovered", "mark", "refused", "put", "answered", "state", "violated")
"""First words of the kinds of events that are no operation: what disk and store report."""
_EXCHANGED = ("send", "receive", "request")
"""Kinds of events on a connection; `request` is a request with its answer."""
_LINES_MIN = 9
"""Number of events that a story with reports has even if fewer concern the failure."""
_ALWAYS_SHOWN = ("error", "refused", "put refused", "fault", "damaged")
_CALLERS_MAX = 2
"""Number of lines of code at an event that did not touch the bytes of the failure."""
_ALIKE_MAX = 3
"""Maximum number of operations of one kind by one task on one file in a story with reports."""


@dataclass(slots=True)
class FailureSubjects:
    """The subjects of a failure: bytes of files, files, directories, tasks and machines."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    """Byte ranges: path, first byte, end offset.

    For a log or queue: its directory, and offsets in the whole log or queue.
    """
    paths: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    """Names of tasks, with or without the names of their machines."""
    machines: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def relevance(self, event: TraceEvent) -> int:
        if event.kind in ("state", "violated"):
            return BYTES
        if event.kind == "kill":
            return _FILE
        path, start, stop = path_and_range(event.text)
        if stop > start and any(self._concerns_bytes(span, path, start, stop) for span in self.ranges):
            return BYTES
        if any(path == known or path.startswith((f"{known}/", f"{known}.")) for known in self.paths):
            return _FILE
        if any(known.rpartition("/")[0] == path for known in self.paths):
            return TASK  # the directory also has unrelated files
        names = *self.paths, *(name for name in self.names if name not in self.tasks)
        if (is_report(event) or event.kind in _EXCHANGED) and any(known in event.text for known in names):
            return _FILE
        if event.kind == "recovered":
            return _FILE
        if event.kind.startswith(_ALWAYS_SHOWN) and "slow" not in event.kind:
            return TASK
        machine, _, task = event.task.rpartition("/")
        return TASK if machine in self.machines or not self.tasks.isdisjoint((event.task, task)) else OTHER

    def add_paths(self, events: Iterable[TraceEvent], texts: Iterable[str]) -> None:
        text = "\n".join(texts)
        for path in {path_and_range(event.text)[0] for event in events}:
            # A path must not match inside a longer path or name.
            if len(path) > 1 and re.search(rf"{re.escape(path)}(?!\w|[./-]\w)", text):
                self.paths.add(path)

    def _concerns_bytes(self, span: tuple[str, int, int], path: str, start: int, stop: int) -> bool:
        known, first, end = span
        directory, _, base = path.rpartition("/")
        if directory == known and base.isdecimal():
            start, stop = int(base) + start, int(base) + stop
        elif path != known:
            return False
        return start < end and first < stop


def story_of(
    events: Iterable[TraceEvent],
    concern: FailureSubjects,
    lines_max: int,
    *,
    verdict: str = "",
    root: str = "",
    reports_max: int = 0,
) -> list[str]:
    """Return at most lines_max lines, oldest first: the most relevant events, and a count of the others.

    verdict: the judge's error; the story omits the end of its task. root: prefix to remove from paths. reports_max:
    number of lines for `REPORTS`, which are chosen before operations.
    """
    assert lines_max > reports_max >= 0, (lines_max, reports_max)
    shown = [event for event in events if not _is_left_out(event, verdict)]
    _add_files_of_ranges(concern, shown)
    weights = [concern.relevance(event) for event in shown]
    if len(shown) <= lines_max:
        return [_event_line(event, root, weight) for event, weight in zip(shown, weights, strict=True)]
    weighed = sorted(((weight, number) for number, weight in enumerate(weights)), reverse=True)
    found = [(weight, number) for weight, number in weighed if weight > 0 and is_report(shown[number])]
    reports = list(_without_alike_reports(shown, found))[:reports_max]
    others = [number for weight, number in weighed if weight > 0 and not is_report(shown[number])]
    if reports_max:
        others = list(_without_alike(shown, others))
    chosen = reports + others[: lines_max - 1 - len(reports)]  # one line has the count
    fewest = min(_LINES_MIN if reports_max else lines_max, lines_max - 1)
    rest = [number for weight, number in weighed if weight == OTHER]
    if reports_max:
        rest = list(_latest_of_tasks(shown, rest))
    chosen += rest[: max(0, fewest - len(chosen))]
    chosen.sort()
    assert len(chosen) < lines_max < len(shown), (len(chosen), lines_max)
    about = shorten_paths(f", chosen for {', '.join(concern.names[:4])}", root) if concern.names else ""
    count = f"{len(chosen):,} of {len(shown):,} events{about}"
    return [count, *(_event_line(shown[number], root, weights[number]) for number in chosen)]


def _is_left_out(event: TraceEvent, verdict: str) -> bool:
    """Whether an event is irrelevant: a task switch or start, a normal end, or an end by the judge."""
    if event.kind == "end":
        return ": " not in event.text or (bool(verdict) and f": {verdict}(" in event.text)
    return event.kind in _LEFT_OUT


def _without_alike(events: list[TraceEvent], numbers: Iterable[int]) -> Iterator[int]:
    """Yield the first numbers of operations of the same kind by the same task on the same file."""
    alike = Counter[tuple[str, str, str]]()
    for number in numbers:
        event = events[number]
        key = event.task, event.kind, path_and_range(event.text)[0]
        alike[key] += 1
        if alike[key] <= _ALIKE_MAX:
            yield number


def _latest_of_tasks(events: list[TraceEvent], numbers: Iterable[int]) -> Iterator[int]:
    """Yield the first number of the events of the same kind by the same task."""
    seen: set[tuple[str, str]] = set()
    for number in numbers:
        key = events[number].task, events[number].kind
        if key not in seen:
            seen.add(key)
            yield number


def _without_alike_reports(events: list[TraceEvent], weighed: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the numbers of reports, but only the first ones of a kind that are not about a subject of the failure."""
    alike = Counter[str]()
    for weight, number in weighed:
        kind = events[number].kind.partition(" ")[0]
        alike[kind] += weight <= TASK
        if weight > TASK or alike[kind] <= _ALIKE_MAX:
            yield number


def is_report(event: TraceEvent) -> bool:
    return event.kind.partition(" ")[0] in REPORTS


def shorten_paths(text: str, root: str) -> str:
    """Remove a root directory and the leading zeros of file names, and shorten repetitions of a letter."""
    return _LETTERS.sub(r"\1…", _ZEROS.sub("", text.replace(f"{root}/", "") if root else text))


def _event_line(event: TraceEvent, root: str, weight: int) -> str:
    what = shorten_paths(event.text, root)
    callers = event.place.split(" < ")
    shown = " < ".join(callers if weight >= BYTES else callers[:_CALLERS_MAX])
    place = f"  [{shown}]" if shown else ""
    return f"{event.now_ns / 1e6:9.3f} ms  {event.task}: {event.kind} {what}{place}"


def _add_files_of_ranges(concern: FailureSubjects, events: Iterable[TraceEvent]) -> None:
    """For each directory range, add the last file that begins at or before the range."""
    begins: dict[str, set[int]] = {}
    for event in events:
        directory, _, base = path_and_range(event.text)[0].rpartition("/")
        if base.isdecimal():
            begins.setdefault(directory, set()).add(int(base))
    for directory, first, _ in concern.ranges:
        bases = [base for base in begins.get(directory, ()) if base <= first]
        if bases:
            concern.paths.add(f"{directory}/{max(bases):020}")


def path_and_range(text: str) -> tuple[str, int, int]:
    """Return path and byte range of the text, or (0, 0) without a range."""
    match = _RANGE.fullmatch(text)
    return (text, 0, 0) if match is None else (match[1], int(match[2]), int(match[3]))
