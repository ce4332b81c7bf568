"""Crash image of a machine: selects one disk state that its file system allows after a power cut."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from ....sim.choices import Choices, Stream
from ...crashes.profiles import PROFILES
from ...disk.export import export_image
from ...disk.image import Image
from ..record import FILES, ProgramRecord, RecordError
from ..recording.run import ProgramError, record_differences, remove_special_files
from ..replay import Replayer
from ..story import losses_of

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
            raise ProgramError(f"the directory is not what was recorded: {difference}")
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
