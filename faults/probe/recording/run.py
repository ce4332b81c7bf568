"""Recorded run: a program in a process and on a directory of its own; its record is held against what it left there."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ...disk.export import export, load
from ...disk.image import Image
from ..record import FILE_BYTES_MAX, FILES, RECORD_BYTES_MAX, TEMPORARY, ProgramRecord, RecordError
from ..replay import Replayer

EMPTY = Image({}, (FILES, TEMPORARY))
"""What a program finds that is given nothing."""


class ProgramError(Exception):
    """A program could not be run to its end: there is nothing to probe."""


def start_of(directory: Path) -> Image:
    """Return what a program finds that is given a copy of a directory. ProgramError: it cannot be given that."""
    for odd in _oddities(directory):
        raise ProgramError(odd)
    image = load(directory, FILES)
    return Image(image.files, (*image.directories, TEMPORARY))


def record_program(program: Sequence[str], start: Image, seconds_max: float) -> tuple[ProgramRecord, list[str]]:
    """Run a script, or `-m` and a module, with arguments; return its record and where that is not all it did.

    Raises ProgramError if it does not end well within seconds_max; what it prints on standard error is there to read.
    """
    with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
        root, file = Path(scratch, "disk"), Path(scratch, "record.json")
        root.mkdir()
        export(start, "/", root)
        _run([str(root), str(file), *program], seconds_max)
        try:
            record = ProgramRecord.from_json(json.loads(file.read_text()))
        except FileNotFoundError as error:
            raise ProgramError("the program has ended its process past Python: there is no record") from error
        if record.exit:
            raise ProgramError(f"the program has ended with {record.exit}")
        return record, list(_unlike(record, start, root))


def _run(arguments: list[str], seconds_max: float) -> None:
    """Run the recorder. Its process ends with 0 as soon as there is a record."""
    command = [sys.executable, "-m", str(__package__), *arguments]
    try:
        nothing = subprocess.DEVNULL
        done = subprocess.run(command, stdin=nothing, stdout=nothing, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"the program has not ended within {seconds_max:g} s") from error
    if done.returncode:
        raise ProgramError(f"the program's process has ended with {done.returncode}")


def _unlike(record: ProgramRecord, start: Image, root: Path) -> Iterator[str]:
    odd = list(_oddities(root))
    if odd:
        yield from odd
        return
    replayer = Replayer(record, start)
    try:
        for _ in replayer.points():
            pass
    except RecordError as error:
        yield str(error)
        return
    yield from differences(replayer.intact(), load(root, "/"))


def differences(recorded: Image, found: Image) -> Iterator[str]:
    """Yield where a directory is not what its record comes to: names that miss, and first bytes that differ."""
    for path in sorted({*recorded.directories, *found.directories}):
        yield from _name(path, "directory", path in recorded.directories, path in found.directories)
    for path in sorted({*recorded.files, *found.files}):
        one, other = recorded.files.get(path), found.files.get(path)
        if one is None or other is None:
            yield from _name(path, "file", one is not None, other is not None)
        elif one.content != other.content:
            yield _content(path, one.content, other.content)


def _name(path: str, what: str, is_recorded: bool, is_found: bool) -> Iterator[str]:
    if is_found and not is_recorded:
        yield f"{path}: expected no such {what}, found one"
    elif is_recorded and not is_found:
        yield f"{path}: expected a {what}, found none"


def _content(path: str, recorded: bytes, found: bytes) -> str:
    offset = first_difference(recorded, found)
    size = f" (sizes: expected {len(recorded)}, found {len(found)})" if len(recorded) != len(found) else ""
    return f"{path} @ {offset}: expected {_byte(recorded, offset)}, found {_byte(found, offset)}{size}"


def first_difference(one: bytes, other: bytes) -> int:
    """Return the first offset at which two contents differ, by bisection; the shorter one's end if it is a prefix."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _byte(content: bytes, offset: int) -> str:
    return f"{content[offset]:#04x}" if offset < len(content) else "the file's end"


def _oddities(directory: Path) -> Iterator[str]:
    """Yield what of a directory cannot be held in memory, or is neither file nor directory."""
    size_bytes = 0
    for above, names, files in os.walk(directory):
        for name in sorted([*names, *files]):
            path = Path(above, name)
            status = path.lstat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                yield f"{path.relative_to(directory)}: expected a file or a directory, found mode {status.st_mode:o}"
            elif status.st_size > FILE_BYTES_MAX:
                yield f"{path.relative_to(directory)}: expected at most {FILE_BYTES_MAX} bytes, found {status.st_size}"
            size_bytes += status.st_size
    if size_bytes > RECORD_BYTES_MAX:
        yield f"expected at most {RECORD_BYTES_MAX} bytes in all, found {size_bytes}"
