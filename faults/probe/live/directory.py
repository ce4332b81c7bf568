"""Directory of a live run: the machines' disks, the directory of program and check, and the logs.

root/disks/NAME/files   working directory of a machine
root/disks/NAME/tmp     temporary files of the machine, on the same disk
root/files              working directory of program and check, with a link to each machine's directory
root/logs               output of the machines, and standard error of the program
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ...disk.export import export_image
from ...disk.image import Image
from ..record import FILES, TEMPORARY

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
