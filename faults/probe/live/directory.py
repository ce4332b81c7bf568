"""Directory of a live run: the disks of the machines, the directory of the program and of the check, and the logs.

root/disks/NAME/files   the directory of a machine, which is the working directory of its command
root/disks/NAME/tmp     its temporary files, on the same disk
root/files              working directory of the program and of the check; each machine's directory is linked here
root/logs               output of the machines, and standard error of the program
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ...disk.export import export_image
from ...disk.image import Image
from ..record import FILES, TEMPORARY

PROGRAM = "program"
"""Name of the log of the program, which is no machine."""
_LOG_BYTES_MAX = 256 << 10


class RunDirectory:
    """The directory of one run. machines: directories by name. start: the files at the start, also of the machines."""

    def __init__(self, root: Path, machines: Mapping[str, str], start: Image) -> None:
        self.root = root
        self.files, self.temporary = Path(f"{root}{FILES}"), Path(f"{root}{TEMPORARY}")
        for directory in (root / "logs", self.files, self.temporary):
            directory.mkdir(parents=True)
        places = tuple(f"{FILES}/{place}" for place in machines.values())
        rest = _selected(start, lambda path: path if not f"{path}/".startswith(_slashed(places)) else None)
        export_image(rest, "/", root)
        self.images = {name: self._make_disk(name, place, start) for name, place in machines.items()}
        """The disk of each machine at the start."""

    def _make_disk(self, name: str, place: str, start: Image) -> Image:
        """Make the disk of a machine, and link its directory."""
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
        """Return the real directory with the disk of a machine."""
        return self.root / "disks" / name

    def log_of(self, name: str) -> Path:
        """Return the file with the output of a machine, or of the program."""
        return self.root / "logs" / f"{name}.log"

    def log_text(self, name: str) -> str:
        """Return the end of a log."""
        with self.log_of(name).open("ab+") as file:
            file.seek(max(0, file.tell() - _LOG_BYTES_MAX))
            return file.read().decode(errors="replace")


def _slashed(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{place}/" for place in places)


def _selected(image: Image, renamed: Callable[[str], str | None]) -> Image:
    """Return the files of an image that get a new path."""
    return Image(
        {path: file for old, file in image.files.items() if (path := renamed(old)) is not None},
        tuple(path for old in image.directories if (path := renamed(old)) is not None),
        {path: text for old, text in image.symlinks.items() if (path := renamed(old)) is not None},
    )
