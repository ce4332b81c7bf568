"""Recorded run: runs a Python program on a temporary directory and verifies its record."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG, S_ISSOCK
from tempfile import TemporaryDirectory

from ....sim.interruption import current_interruption
from ...disk.content import Content, first_difference
from ...disk.export import export_image, load_image
from ...disk.image import Image
from ..endings import SHOWN_LINES_MAX, failed_process_text
from ..record import ACKNOWLEDGE, FILE_BYTES_MAX, FILES, RECORD_BYTES_MAX, TEMPORARY, ProgramRecord, RecordError
from ..replay import Replayer

EMPTY = Image({}, (FILES, TEMPORARY))
"""Initial disk of a program without a start directory."""
_BLOCK_BYTES = 512  # unit of st_blocks on every file system

_TAIL_BYTES = 4096


class ProgramError(Exception):
    """A program did not run to its end, so it has no record."""


def start_image_of(directory: Path) -> Image:
    """Read a start directory as an image. ProgramError: a file cannot be copied."""
    for odd in _unsupported_paths(directory):
        raise ProgramError(odd)
    image = load_image(directory, FILES)
    return Image(image.files, (*image.directories, TEMPORARY), image.symlinks)


def record_program(
    program: Sequence[str], start: Image, seconds_max: float, *, ignores_special_files: bool = False
) -> tuple[ProgramRecord, list[str]]:
    """Run a script, or `-m` and a module, with arguments. Return the record, and how the program's files differ from
    it.

    ignores_special_files: whether to ignore sockets, FIFOs and devices that the program leaves.

    ProgramError: the program fails or exceeds seconds_max. The program inherits standard error.
    """
    with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
        root, file, output = (Path(scratch, name) for name in ("disk", "record.json", "output"))
        root.mkdir()
        export_image(start, "/", root)
        _run_recorder([str(root), str(file), *program], seconds_max, output)
        try:
            record = replace(ProgramRecord.from_json(json.loads(file.read_text())), before=tuple(start.files))
        except FileNotFoundError as error:
            raise ProgramError(
                "the program ended its process without Python's exit code, so there is no record; use --record calls"
            ) from error
        if record.exit:
            raise ProgramError(failed_process_text("the program", record.exit, _last_lines(output)))
        if ignores_special_files:
            remove_special_files(root)
        return record, list(record_differences(record, start, root))


def _run_recorder(arguments: list[str], seconds_max: float, output: Path) -> None:
    """Run the recorder. output: file for its standard output."""
    command = [sys.executable, "-m", str(__package__), *arguments]
    try:
        with output.open("wb") as file, current_interruption().interrupts_allowed():
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"the program has not ended within {seconds_max:g} s") from error
    if done.returncode:
        raise ProgramError(failed_process_text("the program's process", done.returncode, _last_lines(output)))


def _last_lines(output: Path) -> list[str]:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-SHOWN_LINES_MAX:]


def record_differences(record: ProgramRecord, start: Image, root: Path) -> Iterator[str]:
    """Yield the differences between a record and the files below root.

    ProgramError: the simulated disk does not support the name of a file.
    """
    _require_utf8(name for step in record.steps if step.kind != ACKNOWLEDGE for name in (step.path, step.target))
    odd = list(_unsupported_paths(root))
    if odd:
        yield from odd
        return
    replayer = Replayer(record, start)
    try:
        replayer.replay_all()
    except RecordError as error:
        yield str(error)
        return
    yield from differences(replayer.intact_image(), load_image(root, "/"))


def differences(recorded: Image, found: Image) -> Iterator[str]:
    """Yield missing names and first differing bytes of two images."""
    for path in sorted({*recorded.directories, *found.directories}):
        yield from _name_difference(path, "directory", path in recorded.directories, path in found.directories)
    for path in sorted({*recorded.symlinks, *found.symlinks}):
        expected, text = recorded.symlinks.get(path), found.symlinks.get(path)
        if expected is None or text is None:
            yield from _name_difference(path, "symbolic link", expected is not None, text is not None)
        elif expected != text:
            yield f"{path}: expected a symbolic link to {expected}, found one to {text}"
    for path in sorted({*recorded.files, *found.files}):
        one, other = recorded.files.get(path), found.files.get(path)
        if one is None or other is None:
            yield from _name_difference(path, "file", one is not None, other is not None)
        else:
            yield from _content_difference(path, one.held, other.held)


def _name_difference(path: str, what: str, is_recorded: bool, is_found: bool) -> Iterator[str]:
    if is_found and not is_recorded:
        yield f"{path}: expected no such {what}, found one"
    elif is_recorded and not is_found:
        yield f"{path}: expected a {what}, found none"


def _content_difference(path: str, recorded: Content, found: Content) -> Iterator[str]:
    offset = first_difference(recorded, found)
    if offset is not None:
        size = f" (sizes: expected {len(recorded)}, found {len(found)})" if len(recorded) != len(found) else ""
        yield f"{path} @ {offset}: expected {_byte_text(recorded, offset)}, found {_byte_text(found, offset)}{size}"


def _byte_text(content: Content, offset: int) -> str:
    return f"{content[offset : offset + 1][0]:#04x}" if offset < len(content) else "the file's end"


def remove_special_files(root: Path) -> None:
    """Remove sockets, FIFOs and devices, which images do not support."""
    for above, _, files in os.walk(root):
        for path in (Path(above, name) for name in files):
            if _is_special(path.lstat().st_mode):
                path.unlink()


def _is_special(mode: int) -> bool:
    return not (S_ISREG(mode) or S_ISDIR(mode) or S_ISLNK(mode))


def _special_file_text(mode: int) -> str:
    if S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if S_ISSOCK(mode) else "a device"


def _require_utf8(names: Iterable[str]) -> None:
    """Raise ProgramError if a name or the target of a link is not UTF-8, because JSON cannot represent it."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ProgramError(f"expected names in UTF-8, found {os.fsencode(name)!r}") from error


def _unsupported_paths(directory: Path) -> Iterator[str]:
    """Yield the paths that are too large, or neither a file nor a directory nor a symbolic link."""
    data_bytes = 0
    for above, names, files in os.walk(directory):
        for name in sorted([*names, *files]):
            path = Path(above, name)
            status = path.lstat()
            _require_utf8([name, os.readlink(path)] if S_ISLNK(status.st_mode) else [name])
            if _is_special(status.st_mode):
                found = _special_file_text(status.st_mode)
                yield f"{path.relative_to(directory)}: expected a file or a directory, found {found}"
            elif status.st_size > FILE_BYTES_MAX:
                yield f"{path.relative_to(directory)}: expected at most {FILE_BYTES_MAX} bytes, found {status.st_size}"
            elif S_ISREG(status.st_mode):
                data_bytes += min(status.st_size, status.st_blocks * _BLOCK_BYTES)
    if data_bytes > RECORD_BYTES_MAX:
        yield f"expected at most {RECORD_BYTES_MAX} bytes in all, found {data_bytes}"
