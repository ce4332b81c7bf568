"""Crash image of a machine: the disk after a power cut, chosen among the states that its file system allows."""

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
"""Choices of an image: everything that may be lost is lost, nothing is lost, or each loss is drawn."""
IMAGE_CHOICES = (OLDEST, OLDEST, DRAWN, NEWEST)
"""The options of a draw. Half of all images are the oldest, which loses most."""
_LOSSES_MAX = 20


class CrashImage(NamedTuple):
    """The disk that a machine finds after a power cut, and what was lost."""

    image: Image
    loss_count: int
    losses: tuple[str, ...]
    """The first losses, in words."""


def crash_image(record: ProgramRecord, start: Image, disk: str, choice: str, stream: Stream) -> CrashImage:
    """Return the image that a power cut leaves after the last step of a record. start: the disk before its first step.

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
    """Raise ProgramError if the record has not all changes of the files below root."""
    for one in record.unseen:
        raise ProgramError(f"{one.event}: {one.detail}")
    remove_special_files(root)
    try:
        for difference in record_differences(record, start, root):
            raise ProgramError(f"the directory is not what was recorded: {difference}")
    except RecordError as error:
        raise ProgramError(str(error)) from error


def replace_files(root: Path, image: Image) -> None:
    """Make the directory of a machine anew with the content of an image. The directory itself stays."""
    files = Path(f"{root}{FILES}")
    for directory in list(root.iterdir()):
        for entry in directory.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    export_image(image, "/", root)
    assert files.is_dir(), os.fspath(files)
