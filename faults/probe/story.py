"""What a program did, in lines: each step with the line of the user's own program that it comes from."""

import os
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache

from . import record as steps
from .losses import named
from .record import ProgramRecord, SourceLine, Step

STORY_STEPS = 12


def step_text(record: ProgramRecord, number: int) -> str:
    """Return a step, and where it comes from, in a line."""
    step = record.steps[number]
    return f"{number + 1:>4} {described(record, step)}  {where(record.stacks[step.stack])}".rstrip()


def story(record: ProgramRecord, upto: int) -> Iterator[str]:
    """Yield the last steps up to that number."""
    for number in range(max(0, upto + 1 - STORY_STEPS), upto + 1):
        yield step_text(record, number)


def described(record: ProgramRecord, step: Step) -> str:
    """Return what a step did, with the paths that the program knows."""
    name = _name_of(record, step.file) if step.file >= 0 else ""
    match step.kind:
        case steps.WRITE:
            return f"write {name} [{step.at}, {step.at + len(step.data)})"
        case steps.TRUNCATE | steps.ALLOCATE:
            return f"{step.kind} {name} to {step.at}"
        case steps.SYNC:
            return f"sync {name}"
        case steps.RENAME | steps.LINK:
            return f"{step.kind} {named(step.path)} -> {named(step.target)}"
        case steps.SYNC_ALL:
            return step.kind
        case steps.ACKNOWLEDGE:
            return f"acknowledge {step.path!r}"
    return f"{step.kind} {named(step.path)}"


def _name_of(record: ProgramRecord, file: int) -> str:
    """Return what a file was called first."""
    made = [step.path for step in record.steps if step.kind == steps.CREATE and step.file == file]
    return named(made[0]) if made else f"file {file}"


def where(stack: Sequence[SourceLine]) -> str:
    """Return the line of the user's program, and behind it that of the library which that was in, if there is one."""
    if not stack:
        return ""
    own = next((place for place in stack if not _is_library(place.file)), None)
    own = own or next((place for place in stack if not _is_standard(place.file)), stack[0])
    text = f"{os.path.basename(own.file)}:{own.line}"
    inner = stack[0]
    return text if inner == own else f"{text} ({_short(inner.file)}:{inner.line} {inner.function})"


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
    return tuple(
        dict.fromkeys(paths[name] + os.sep for name in ("purelib", "platlib", "stdlib", "platstdlib"))
    )


def _is_library(file: str) -> bool:
    return file.startswith(("<", *_libraries()))


def _is_standard(file: str) -> bool:
    paths = sysconfig.get_paths()
    packages = (paths["purelib"], paths["platlib"])
    return file.startswith(("<", paths["stdlib"])) and not file.startswith(packages)
