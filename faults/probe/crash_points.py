"""Crash points by name: finds the points of `cut at` rules, and gives each point a stable name."""

from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ..disk.image import Image
from . import record as steps
from .record import ProgramRecord
from .replay import Point, Replayer
from .story import named
from .tracing.control import ALL_CALLS, MARK, CrashRule, glob_matches


def steps_of(rule: CrashRule, record: ProgramRecord) -> list[int]:
    """Return the numbers of the steps that match a rule, or that follow the crash points that the rule names."""
    if rule.call == MARK:
        return list(record.cuts)
    found = []
    for number, names in enumerate(_names_of_steps(record)):
        step = record.steps[number]
        if rule.call not in (step.kind.replace(" ", "-"), step.call):
            continue
        is_promise = step.kind == steps.ACKNOWLEDGE  # the text of a promise or refusal is not a path
        if any(fnmatchcase(name, rule.glob) if is_promise else glob_matches(rule.glob, name) for name in names):
            found.append(number)
    return found if rule.nth == ALL_CALLS else found[rule.nth - 1 : rule.nth]


def points_of_rules(rules: Iterable[CrashRule], record: ProgramRecord, start: Image) -> set[Point]:
    """Return the crash points before, inside and after the steps that match rules, and those that the program
    requested.
    """
    numbers = {number for rule in rules if rule.call != MARK for number in steps_of(rule, record)}
    nexts = sorted({*numbers, *record.cuts})
    found, before = set(), None
    for point in Replayer(record, start).points():
        if before is not None and any(before.step < number <= point.step for number in nexts):
            found.add(before)
        if point.step in numbers:
            found.add(point)
        before = point
    if before is not None and nexts and before.step < nexts[-1]:
        found.add(before)
    return found


def named_points(record: ProgramRecord, start: Image) -> Iterator[tuple[str, Point]]:
    """Yield each crash point with a name that stays the same if other steps are added to the program.

    The name has the kind and paths of the last step, its number among equal steps, and the operation inside it.
    """
    texts, counts = [], Counter[str]()
    for step, names in zip(record.steps, _names_of_steps(record), strict=True):
        shown = names if step.kind in steps.ANSWERS else map(named, names)
        text = f"{step.kind} {' '.join(shown)}".rstrip()
        counts[text] += 1
        texts.append(f"{text} #{counts[text]}")
    operations: Counter[int] = Counter()
    for point in Replayer(record, start).points():
        operations[point.step] += 1
        more = f", operation {operations[point.step]}" if point.is_inside or operations[point.step] > 1 else ""
        yield (f"after {texts[point.step]}{more}" if point.step >= 0 else "before the first step"), point


def _names_of_steps(record: ProgramRecord) -> Iterator[list[str]]:
    """Yield the paths of each step, or the current path of its file."""
    files = {path: number for number, path in enumerate(record.before)}
    for step in record.steps:
        if step.kind in (steps.CREATE, steps.LINK) and step.file >= 0:
            files[step.path or step.target] = step.file
        if step.path or step.kind == steps.LINK:
            yield [path for path in (step.path, step.target) if path]
        elif step.file >= 0:
            yield [path for path, number in files.items() if number == step.file] or [""]
        else:
            yield [""]
        _apply_to_paths(files, step)


def _apply_to_paths(files: dict[str, int], step: steps.Step) -> None:
    """Apply the renames and removals of a step to the paths of files."""
    if step.kind == steps.UNLINK:
        files.pop(step.path, None)
    elif step.kind == steps.LINK and step.path in files:
        files[step.target] = files[step.path]
    elif step.kind in (steps.RENAME, steps.EXCHANGE):
        moved = _pop_paths_below(files, step.path, step.target)
        back = _pop_paths_below(files, step.target, step.path)
        files |= moved if step.kind == steps.RENAME else moved | back


def _pop_paths_below(files: dict[str, int], old: str, new: str) -> dict[str, int]:
    """Remove a path and the paths below it. Return their files by new path."""
    paths = [path for path in files if path == old or path.startswith(f"{old}/")]
    return {new + path.removeprefix(old): files.pop(path) for path in paths}
