"""Directory of a live run: the machines' disks and crash images, the directory of program and check, and the logs.

root/disks/NAME/files   working directory of a machine
root/disks/NAME/tmp     temporary files of the machine, on the same disk
root/files              working directory of program and check, with a link to each machine's directory
root/logs               output of the machines, and standard error of the program
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ....sim.choices import Choices, Stream
from ...crashes.profiles import PROFILES
from ...disk.export import export_image
from ...disk.image import Image
from ..record import FILES, TEMPORARY, ProgramRecord, RecordError
from ..recording.run import ProgramError, record_differences, remove_special_files
from ..replay import Replayer
from ..story import losses_of

PROGRAM = "program"
"""Name of the program's log."""
_LOG_BYTES_MAX = 256 << 10


class RunDirectory:
    """The directory of one run. machines: directories by name. start: initial files of machines and program."""

    def __init__(self, root: Path, machines: Mapping[str, str], start: Image) -> None:
        self.root = root
        self.files, self.temporary = Path(f"{root}{FILES}"), Path(f"{root}{TEMPORARY}")
        for directory in (root / "logs", self.files, self.temporary):
            directory.mkdir(parents=True)
        places = tuple(f"{FILES}/{place}" for place in machines.values())
        rest = _selected(start, lambda path: path if not f"{path}/".startswith(_slashed(places)) else None)
        export_image(rest, "/", root)
        self.images = {name: self._make_disk(name, place, start) for name, place in machines.items()}
        """The initial disk of each machine."""

    def _make_disk(self, name: str, place: str, start: Image) -> Image:
        """Create the disk of a machine, and link its directory."""
        disk, above = self.disk_of(name), f"{FILES}/{place}"
        found = _selected(start, lambda path: FILES + path[len(above) :] if path.startswith(f"{above}/") else None)
        image = Image(found.files, (FILES, TEMPORARY, *found.directories), found.symlinks)
        disk.mkdir(parents=True)
        export_image(image, "/", disk)
        link = self.files / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"{disk}{FILES}")
        return image

    def disk_of(self, name: str) -> Path:
        """Return the real directory of a machine's disk."""
        return self.root / "disks" / name

    def log_of(self, name: str) -> Path:
        """Return the log file of a machine, or of the program."""
        return self.root / "logs" / f"{name}.log"

    def log_text(self, name: str) -> str:
        """Return the end of a log."""
        with self.log_of(name).open("ab+") as file:
            file.seek(max(0, file.tell() - _LOG_BYTES_MAX))
            return file.read().decode(errors="replace")


def _slashed(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{place}/" for place in places)


def _selected(image: Image, renamed: Callable[[str], str | None]) -> Image:
    """Rename the files of an image. None: the image loses the file."""
    return Image(
        {path: file for old, file in image.files.items() if (path := renamed(old)) is not None},
        tuple(path for old in image.directories if (path := renamed(old)) is not None),
        {path: text for old, text in image.symlinks.items() if (path := renamed(old)) is not None},
    )


OLDEST, NEWEST, DRAWN = "oldest", "newest", "drawn"
"""Choices of an image: all possible losses, no loss, or random losses."""
IMAGE_CHOICES = (OLDEST, OLDEST, DRAWN, NEWEST)
"""Options of the random choice. Half of all images have all possible losses."""
_LOSSES_MAX = 20


class CrashImage(NamedTuple):
    """The disk of a machine after a power cut, and its losses."""

    image: Image
    loss_count: int
    losses: tuple[str, ...]
    """Texts about the first losses."""


def crash_image(record: ProgramRecord, start: Image, disk: str, choice: str, stream: Stream) -> CrashImage:
    """Return the image after a power cut at the end of a record. start: the disk before its first step.

    RecordError: a step is impossible.
    """
    replayer = Replayer(record, start, Choices("live"))
    for _ in replayer.points():
        pass
    states = replayer.disk.crash_states(PROFILES[disk], 1, stream)
    if choice == DRAWN:
        state = states.drawn(stream)
    else:
        state = states.oldest if choice == OLDEST else states.newest
    losses = losses_of(states.losses_of(state), replayer.steps_of) if state.loss_count else []
    return CrashImage(state.image, state.loss_count, tuple(loss.what for loss in losses[:_LOSSES_MAX]))


def require_complete(record: ProgramRecord, start: Image, root: Path) -> None:
    """Raise ProgramError if the files below root have changes that the record lacks."""
    for one in record.unseen:
        raise ProgramError(f"{one.event}: {one.detail}")
    remove_special_files(root)
    try:
        for difference in record_differences(record, start, root):
            raise ProgramError(f"the directory differs from the record: {difference}")
    except RecordError as error:
        raise ProgramError(str(error)) from error


def replace_files(root: Path, image: Image) -> None:
    """Replace the content of a machine's directory by an image."""
    files = Path(f"{root}{FILES}")
    for directory in list(root.iterdir()):
        for entry in directory.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    export_image(image, "/", root)
    assert files.is_dir(), os.fspath(files)
