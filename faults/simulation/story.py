"""The story of a failure: the events before it that concern it most, and how many others there were.

An event that touched the bytes of a failure concerns it most. Then come events of the same file and ends of machines,
then events of the tasks and machines of the failure. Among equals the last are shown; the others are counted.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...sim.trace import TraceEvent

_LEFT_OUT = ("switch", "start")
_RANGE = re.compile(r"(.*) \[(\d+), (\d+)\)")
"""How writes say what they wrote: path, first byte, and the one behind the last."""
_BYTES, _FILE, _TASK, _OTHER = 3, 2, 1, 0


@dataclass(slots=True)
class Concern:
    """Subject of a failure: bytes of files, files, directories, tasks and machines."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    """Path of a file, first byte, and the one behind the last; of the log and of a queue the directory, and offsets."""
    paths: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    """Names, with or without their machines."""
    machines: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    """What the first line says that the lines concern."""

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
        machine, _, task = event.task.rpartition("/")
        return _TASK if machine in self.machines or not self.tasks.isdisjoint((event.task, task)) else _OTHER

    def add_paths(self, events: Iterable[TraceEvent], texts: Iterable[str]) -> None:
        """Add each path of the events that one of the texts names."""
        text = "\n".join(texts)
        for path in {_place(event.text)[0] for event in events}:
            # A directory is not named by a text that names a file in it, nor a file by one with a longer name.
            if len(path) > 1 and re.search(rf"{re.escape(path)}(?!\w|[./-]\w)", text):
                self.paths.add(path)

    def _covers(self, span: tuple[str, int, int], path: str, start: int, stop: int) -> bool:
        known, first, end = span
        directory, _, base = path.rpartition("/")
        if directory == known and base.isdecimal():
            start, stop = int(base) + start, int(base) + stop
        elif path != known:
            return False
        return start < end and first < stop


def story_of(
    events: Iterable[TraceEvent], concern: Concern, lines_max: int, *, verdict: str = "", root: str = ""
) -> list[str]:
    """Return at most that many lines, oldest first: what concerns a failure most, and how much else there was.

    verdict: the name of the error by which a judge ends a task; such an end is none of the story. root: what paths are
    shown without.
    """
    assert lines_max > 0, lines_max
    shown = [event for event in events if not _is_left_out(event, verdict)]
    if len(shown) <= lines_max:
        return [_line(event, root) for event in shown]
    _add_files(concern, shown)
    weighed = sorted(((concern.weight(event), number) for number, event in enumerate(shown)), reverse=True)
    chosen = sorted(number for _, number in weighed[: lines_max - 1])  # one line less: the first counts the others
    about = f", these concern {', '.join(concern.names[:4])}" if concern.names else ""
    left_out = f"{len(shown) - len(chosen):,} of {len(shown):,} events are left out{about}"
    return [left_out, *(_line(shown[number], root) for number in chosen)]


def _is_left_out(event: TraceEvent, verdict: str) -> bool:
    """Return whether an event says nothing: a task ends when its work does, or because the judge has ended it."""
    if event.kind == "end":
        return ": " not in event.text or (bool(verdict) and f": {verdict}(" in event.text)
    return event.kind in _LEFT_OUT


def _line(event: TraceEvent, root: str) -> str:
    what = event.text.replace(f"{root}/", "") if root else event.text
    return f"{event.now_ns / 1e6:9.3f} ms  {event.task}: {event.kind} {what}"


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


def _place(text: str) -> tuple[str, int, int]:
    """Return the path that an event's text begins with, and the bytes that it says, none if it says none."""
    match = _RANGE.fullmatch(text)
    return (text, 0, 0) if match is None else (match[1], int(match[2]), int(match[3]))
