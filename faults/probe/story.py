"""Step and loss texts: what a program did, each step with the line of the user's own program, and what a crash took."""

import os
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ..crashes.enumeration import CrashLosses
from ..crashes.page_outcomes import DirtyPage, PageOutcome
from ..disk.changes import Change, Create, Extend, Rename, RenameDirectory, RenameExchange, Truncate
from . import record as steps
from .record import FILES, NOBODY, ProgramRecord, SourceLine, Step

STORY_STEPS = 12


class Loss(NamedTuple):
    """One thing that is lost."""

    what: str
    step: int
    """The step that had made it; of a page, the first of those whose writes are lost."""


def step_text(record: ProgramRecord, number: int) -> str:
    """Return a step in a line: its line of the program, the call that it was, and, if there are several, its task."""
    step = record.steps[number]
    parts = [described(record, step), where(record.stacks[step.stack]), step.call, _task_name(record, step)]
    return f"{number + 1:>4} {'  '.join(part for part in parts if part)}"


def _task_name(record: ProgramRecord, step: Step) -> str:
    """Return who did a step, in words; "" where there is only one that could have."""
    tasks, task = [one for one in record.tasks if one != NOBODY], record.tasks[step.by]
    if len(tasks) < 2 or task == NOBODY:
        return ""
    namesakes = [one for one in tasks if (one.process, one.name) == (task.process, task.name)]
    thread = task.name if len(namesakes) == 1 else f"{task.name} {task.thread}"
    is_alone = all(one.process == task.process for one in tasks)
    return f"by {thread}" if is_alone else f"by {thread} of process {task.process}"


def story(record: ProgramRecord, upto: int) -> Iterator[str]:
    """Yield the last steps up to that number."""
    for number in range(max(0, upto + 1 - STORY_STEPS), upto + 1):
        yield step_text(record, number)


def described(record: ProgramRecord, step: Step) -> str:
    """Return what a step did, with the paths that the program knows."""
    name = _file_name(record, step.file)
    end = step.at + step.size
    match step.kind:
        case steps.WRITE | steps.STORE:
            return f"{step.kind} {name} [{step.at}, {step.at + len(step.data)})"
        case steps.TRUNCATE | steps.ALLOCATE:
            return f"{step.kind} {name} to {end}"
        case steps.ZERO_RANGE:
            return f"zero {name} [{step.at}, {end})"
        case steps.SYNC:
            return f"sync {name} [{step.at}, {end})" if step.size else f"sync {name}"
        case steps.FAILED_SYNC | steps.LYING_SYNC:
            whole = _named(step.path) if step.path else name
            return f"{step.kind} {whole} [{step.at}, {end})" if step.size else f"{step.kind} {whole}"
        case steps.FAULT:
            return f"{step.path}: {step.target}{f' for {name}' if step.file >= 0 else ''}"
        case steps.CREATE if not step.path:
            return f"create {name}"
        case steps.LINK if not step.path:
            return f"link {name} -> {_named(step.target)}"
        case steps.SYMLINK:
            return f"symlink {_named(step.path)} to {step.target}"
        case steps.RENAME | steps.LINK:
            return f"{step.kind} {_named(step.path)} -> {_named(step.target)}"
        case steps.EXCHANGE:
            return f"exchange {_named(step.path)} and {_named(step.target)}"
        case steps.SYNC_ALL:
            return step.kind
        case steps.ACKNOWLEDGE:
            return f"acknowledge {step.path!r}"
    return f"{step.kind} {_named(step.path)}"


def _file_name(record: ProgramRecord, file: int) -> str:
    """Return what a file was called first; one that never was, or was there before the program, by its number."""
    for step in record.steps:
        if step.file == file and step.kind == steps.CREATE and step.path:
            return _named(step.path)
        if step.file == file and step.kind == steps.LINK:
            return _named(step.target)
    return f"file {file}"


def _named(path: str) -> str:
    """Return a path as the program knows it: relative to its directory, or absolute outside of that."""
    return path.removeprefix(f"{FILES}/") if path != FILES else "."


def where(stack: Sequence[SourceLine]) -> str:
    """Return the line of the user's program, and behind it that of the library which that was in, if there is one."""
    if not stack:
        return ""
    own = next((place for place in stack if not _is_library(place.file)), None)
    own = own or next((place for place in stack if not _is_standard(place.file)), stack[0])
    inner = stack[0]
    if inner == own:
        return _place(os.path.basename(own.file), own)
    library = _place(_short(inner.file), inner)
    return f"{_place(os.path.basename(own.file), own)} ({library}{f' {inner.function}' if inner.line else ''})"


def _place(file: str, place: SourceLine) -> str:
    """Return a place of a program; of one without line numbers, its function."""
    return f"{file}:{place.line}" if place.line else f"{file} {place.function}"


def _short(file: str) -> str:
    """Return a library's file as it is imported: behind the directory that libraries lie in."""
    for directory in _libraries():
        if file.startswith(directory):
            return file[len(directory) :]
    return os.path.basename(file)


@cache
def _libraries() -> tuple[str, ...]:
    """Return where installed packages lie, then where the standard library does."""
    paths = sysconfig.get_paths()
    names = ("purelib", "platlib", "stdlib", "platstdlib")
    return tuple(dict.fromkeys(paths[name] + os.sep for name in names))


def _is_library(file: str) -> bool:
    return file.startswith(("<", *_libraries()))


def _is_standard(file: str) -> bool:
    paths = sysconfig.get_paths()
    packages = (paths["purelib"], paths["platlib"])
    return file.startswith(("<", paths["stdlib"])) and not file.startswith(packages)


def losses_of(taken: CrashLosses, steps_of: Sequence[int]) -> list[Loss]:
    """Return what was lost, in the order in which it had been made. steps_of: the step of each operation."""
    found = [(change.number, _of_change(change, kept_bytes)) for change, kept_bytes in taken.changes]
    for page, page_outcome in taken.pages:
        found += _of_page(page, page_outcome)
    return [Loss(what, steps_of[number]) for number, what in sorted(found)]


def _of_change(change: Change, kept_bytes: int) -> str:
    path = _named(change.path)
    match change:
        case Extend() if kept_bytes:
            left_bytes = change.before_bytes + kept_bytes
            return f"size of {path} cut to {left_bytes:,} bytes: it had grown to {change.size_bytes:,}"
        case Extend():
            return f"size of {path} lost: it had grown to {change.size_bytes:,} bytes"
        case Truncate():
            return f"cut of {path} to {change.size_bytes:,} bytes undone"
        case Create():
            return f"name of {path} lost"
        case RenameExchange():
            return f"exchange of {path} and {_named(change.target)} undone"
        case Rename() | RenameDirectory():
            return f"rename of {path} to {_named(change.target)} undone"
    return f"{change.kind} {path}: {change.lost}"


def _of_page(page: DirtyPage, page_outcome: PageOutcome) -> Iterator[tuple[int, str]]:
    """Yield the loss of a page, if it is one, with the number of the first operation that is concerned."""
    writes, latest = page.writes, len(page.writes)
    which_page = f"page {page.page} of {_named(page.path)}"
    if page_outcome.torn_at and page_outcome.other != page_outcome.version:
        first = min(page_outcome.version, page_outcome.other)
        what = f"torn inside a sector: newer only up to its byte {page_outcome.torn_at}"
        yield writes[first][0], f"{which_page} {what}"
    elif page_outcome.sectors and page_outcome.other != page_outcome.version:
        first = min(page_outcome.version, page_outcome.other)
        bits = page_outcome.sectors
        sectors = [str(bit) for bit in range(bits.bit_length()) if bits >> bit & 1]
        age = "older" if page_outcome.other < page_outcome.version else "newer"
        noun = "sector" if len(sectors) == 1 else "sectors"
        yield writes[first][0], f"{which_page} torn: {noun} {', '.join(sectors)} {age}"
    elif page_outcome.version < latest:
        gone = latest - page_outcome.version
        some = f"its last {gone} of {latest} writes" if page_outcome.version else f"all {latest} writes"
        which = "its write" if latest == 1 else some
        yield writes[page_outcome.version][0], f"{which_page} lost: {which}"
