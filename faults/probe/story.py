"""Texts about the steps of a program and about its losses."""

import os
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ..crashes.at_rest import AT_REST, BIT_FLIP, ZEROED_SECTOR, Damage, DamagedState
from ..crashes.enumeration import CrashLosses
from ..crashes.page_outcomes import DirtyPage, PageOutcome
from ..crashes.profiles import NOTHING_LOST
from ..disk.changes import Change, Create, Extend, Rename, RenameDirectory, RenameExchange, Truncate
from . import record as steps
from .record import FILES, PROMISE_TASK, ProgramRecord, SourceLine, Step
from .replay import Point

STORY_STEPS = 12
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/local/lib/")
_OF_GO = "/pkg/mod/"  # directory of third-party Go modules


class Loss(NamedTuple):
    """One lost change."""

    what: str
    steps: tuple[int, ...]
    """Steps that made the lost change, or whose writes to the page are lost. Empty if the program did not write the
    page.
    """


def step_text(record: ProgramRecord, number: int, names: Mapping[int, str] | None = None) -> str:
    """Return a line about a step: action, source line, system call, and the task if the program has several.

    names: the result of `file_names`, as a cache.
    """
    step = record.steps[number]
    parts = [
        step_description(record, step, names),
        where(record.stacks[step.stack]),
        step.call,
        task_name(record, step),
    ]
    return f"{number + 1:>4} {'  '.join(part for part in parts if part)}"


def loss_origin_text(record: ProgramRecord, loss: Loss) -> str:
    """Return a line about the first step of a loss, or "" if the program did not write the data."""
    return step_text(record, loss.steps[0]).strip() if loss.steps else ""


def task_name(record: ProgramRecord, step: Step) -> str:
    """Return a text for the task of a step, or "" if the program has only one task."""
    tasks, task = [one for one in record.tasks if one != PROMISE_TASK], record.tasks[step.by]
    if len(tasks) < 2 or task == PROMISE_TASK:
        return ""
    namesakes = [one for one in tasks if (one.process, one.name) == (task.process, task.name)]
    thread = task.name if len(namesakes) == 1 else f"{task.name} {task.thread}"
    is_alone = all(one.process == task.process for one in tasks)
    return f"by {thread}" if is_alone else f"by {thread} of process {task.process}"


def story(record: ProgramRecord, upto: int) -> Iterator[str]:
    """Yield lines about the last steps up to step number upto."""
    for number in range(max(0, upto + 1 - STORY_STEPS), upto + 1):
        yield step_text(record, number)


def step_description(record: ProgramRecord, step: Step, names: Mapping[int, str] | None = None) -> str:
    """Describe a step, with paths as the program uses them. names: see `step_text`."""
    name = (file_names(record) if names is None else names).get(step.file, f"file {step.file}")
    end = step.at + step.size
    match step.kind:
        case steps.WRITE | steps.STORE:
            return f"{step.kind} {name} [{step.at}, {step.at + len(step.data)})"
        case steps.TRUNCATE | steps.ALLOCATE:
            return f"{step.kind} {name} to {end}"
        case steps.ZERO_RANGE:
            return f"zero {name} [{step.at}, {end})"
        case steps.SYNC:
            what = f"sync {step.target} of" if step.target else step.kind
            return f"{what} {name} [{step.at}, {end})" if step.size else f"{what} {name}"
        case steps.FAILED_SYNC | steps.LYING_SYNC:
            whole = named(step.path) if step.path else name if step.file >= 0 else "of all files"
            return f"{step.kind} {whole} [{step.at}, {end})" if step.size else f"{step.kind} {whole}"
        case steps.FAULT:
            return f"{step.path}: {step.target}{f' for {name}' if step.file >= 0 else ''}"
        case steps.CREATE if not step.path:
            return f"create {name}"
        case steps.LINK if not step.path:
            return f"link {name} -> {named(step.target)}"
        case steps.SYMLINK:
            return f"symlink {named(step.path)} to {step.target}"
        case steps.RENAME | steps.LINK:
            return f"{step.kind} {named(step.path)} -> {named(step.target)}"
        case steps.EXCHANGE:
            return f"exchange {named(step.path)} and {named(step.target)}"
        case steps.SYNC_ALL:
            return step.kind
        case steps.ACKNOWLEDGE | steps.REFUSE:
            return f"{step.kind} {step.path!r}"
    return f"{step.kind} {named(step.path)}"


def file_names(record: ProgramRecord) -> dict[int, str]:
    """Return the first name of each file, including initial files."""
    names = {number: named(path) for number, path in enumerate(record.before)}
    for step in record.steps:
        if step.file >= 0 and step.kind == steps.CREATE and step.path:
            names.setdefault(step.file, named(step.path))
        elif step.file >= 0 and step.kind == steps.LINK:
            names.setdefault(step.file, named(step.target))
    return names


def moment_text(record: ProgramRecord, point: Point) -> str:
    if point.step < 0:
        return "before the first step"
    step = record.steps[point.step]
    inside = "inside" if point.is_inside else "after"
    place = where(record.stacks[step.stack])
    return f"{inside} step {point.step + 1}: {step_description(record, step)}{f' at {place}' if place else ''}"


def crash_text(record: ProgramRecord, point: Point, disk: str) -> str:
    """Describe a crash without its disk. If the disk loses no data, describe only the crash point."""
    if disk in AT_REST:
        return f"damage at rest {moment_text(record, point)}"
    return f"{'state' if disk == NOTHING_LOST else 'crash'} {moment_text(record, point)}"


def named(path: str) -> str:
    """Return a path as the program uses it: relative to the working directory if inside it, else absolute."""
    return path.removeprefix(f"{FILES}/") if path != FILES else "."


def where(stack: Sequence[SourceLine]) -> str:
    """Return the innermost line of the user's program, and the line of a library that it called."""
    if not stack:
        return ""
    own, inner = own_line(stack), stack[0]
    if inner == own:
        return _file_and_line(os.path.basename(own.file), own)
    library = _file_and_line(_relative_to_library(inner.file), inner)
    function = f" {inner.function}" if inner.line and not library.endswith(inner.function) else ""
    return f"{_file_and_line(os.path.basename(own.file), own)} ({library}{function})"


def own_line(stack: Sequence[SourceLine]) -> SourceLine:
    """Return the innermost line of the user's program, else of an installed package, else of any library."""
    own = next((place for place in stack if not _is_library(place.file)), None)
    return own or next((place for place in stack if not _is_standard(place.file)), stack[0])


def _file_and_line(file: str, place: SourceLine) -> str:
    """Return file, line and function of a stack entry. Omit line number 0, and the function in Python."""
    if not place.line:
        return f"{file} {place.function}"
    is_plain = not place.function or file.endswith(".py")
    return f"{file}:{place.line}" if is_plain else f"{file}:{place.line} {place.function}"


def _relative_to_library(file: str) -> str:
    """Return a library's file relative to the import directory."""
    for directory in _libraries():
        if file.startswith(directory):
            return file[len(directory) :]
    return os.path.basename(file)


@cache
def _libraries() -> tuple[str, ...]:
    """Return the directories of installed packages, followed by the directory of the standard library."""
    paths = sysconfig.get_paths()
    names = ("purelib", "platlib", "stdlib", "platstdlib")
    return tuple(dict.fromkeys(paths[name] + os.sep for name in names))


def _is_library(file: str) -> bool:
    return file.startswith(("<", *_SYSTEM, *_libraries())) or _OF_GO in file


def _is_standard(file: str) -> bool:
    paths = sysconfig.get_paths()
    packages = (paths["purelib"], paths["platlib"])
    return file.startswith(("<", paths["stdlib"])) and not file.startswith(packages)


def losses_of(taken: CrashLosses, steps_of: Sequence[int]) -> list[Loss]:
    """Return the losses, in the order of the changes. steps_of: step number of each operation."""
    found = [([change.number], _change_loss_text(change, kept_bytes)) for change, kept_bytes in taken.changes]
    for page, page_outcome in taken.pages:
        found += _loss_of_page(page, page_outcome)
    found.sort(key=lambda one: (one[0][0], one[1]))
    return [Loss(what, tuple(dict.fromkeys(steps_of[number] for number in numbers))) for numbers, what in found]


def damage_of(state: DamagedState, steps_of: Sequence[int], disk: str) -> list[Loss]:
    """Return the damage of a state, if any, with the last step that wrote the page before its sync."""
    damage = state.damage
    if damage is None:
        return []
    return [Loss(_damage_text(damage, disk), () if damage.wrote < 0 else (steps_of[damage.wrote],))]


def _damage_text(damage: Damage, disk: str) -> str:
    page = f"page {damage.place.page} of {named(damage.place.path)}"
    if disk == BIT_FLIP:
        return f"bit {damage.number % 8} of byte {damage.number // 8} in {page} flipped"
    if disk == ZEROED_SECTOR:
        return f"sector {damage.number} of {page} has zeros"
    former = f"{page} has the content before its last sync"
    if damage.target is None:
        return former
    return f"{former}; page {damage.target.page} of {named(damage.target.path)} has the new one"


def _change_loss_text(change: Change, kept_bytes: int) -> str:
    path = named(change.path)
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
            return f"exchange of {path} and {named(change.target)} undone"
        case Rename() | RenameDirectory():
            return f"rename of {path} to {named(change.target)} undone"
    return f"{change.kind} {path}: {change.lost}"


def _loss_of_page(page: DirtyPage, page_outcome: PageOutcome) -> Iterator[tuple[list[int], str]]:
    """Yield the loss of a page, if any, with the operations of lost or torn writes."""
    writes, latest = page.writes, len(page.writes)
    which_page = f"page {page.page} of {named(page.path)}"
    if is_torn(page_outcome):
        first = min(page_outcome.version, page_outcome.other)
        concerned = [number for number, _, _ in writes[first:]]
        if page_outcome.torn_at:
            yield concerned, f"{which_page} torn inside a sector: newer only up to its byte {page_outcome.torn_at}"
            return
        bits = page_outcome.sectors
        sectors = [str(bit) for bit in range(bits.bit_length()) if bits >> bit & 1]
        age = "older" if page_outcome.other < page_outcome.version else "newer"
        noun = "sector" if len(sectors) == 1 else "sectors"
        yield concerned, f"{which_page} torn: {noun} {', '.join(sectors)} {age}"
    elif page_outcome.version < latest:
        gone = latest - page_outcome.version
        some = f"its last {gone} of {latest} writes" if page_outcome.version else f"all {latest} writes"
        which = "its write" if latest == 1 else some
        yield [number for number, _, _ in writes[page_outcome.version :]], f"{which_page} lost: {which}"


def is_torn(page_outcome: PageOutcome) -> bool:
    """Return whether a page has sectors of two versions."""
    mixes = page_outcome.torn_at or page_outcome.sectors
    return bool(mixes) and page_outcome.version != page_outcome.other
