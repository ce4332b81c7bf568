"""Side file: a small file beside the log that is replaced as a whole. RocketMQ's ConfigManager, `.tmp` and `.bak`.

A new version is written aside, made durable, and only then given the name. The version before it is kept as `.bak`, and
a damaged one as `.damaged`. Each rename leaves one complete version at least, even if a power cut undoes some of them.
A version that could not be read is never kept in place of one that can.
Source: RocketMQ ConfigManager.load, MixAll.string2File; the order of its steps and its missing syncs are not kept.
"""

import errno
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from .directories import directory_of, make_directory
from .errors import CorruptFileError
from .formats.side_json import SIDE_JSON_BYTES_MAX
from .marks import hit
from .world import Files

Value = TypeVar("Value")


class SideFile:
    """One side file. One task at a time calls it."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.damage: CorruptFileError | None = None
        """Why the current version was passed over by the last `load`."""
        self._is_damaged = False
        """Whether that version still has the name: it is kept aside before another takes its name."""
        self._files = files
        self._directory = directory_of(path)
        self._content: bytes | None = None
        """What the current version holds, None unless that is complete and durable."""
        self._directory_is_durable = False

    @property
    def backup_path(self) -> str:
        """Return where the version before the current one is."""
        return f"{self.path}.bak"

    @property
    def temporary_path(self) -> str:
        """Return where the next version is written. What a crash leaves there counts for nothing."""
        return f"{self.path}.tmp"

    @property
    def damaged_paths(self) -> Iterator[str]:
        """Yield where damaged versions are kept aside: the first name that is free takes the next one."""
        yield f"{self.path}.damaged"
        yield from (f"{self.path}.damaged.{number}" for number in count(1))

    @property
    def is_current(self) -> bool:
        """Return whether the current version is what was loaded or stored last, and not the one before or a failure."""
        return self._content is not None

    def load(self, parse: Callable[[bytes, str], Value]) -> Value | None:
        """Return what parse makes of the current version, or else of the one before; None if there is neither.

        parse gets the bytes and the path, and raises CorruptFileError, as this does if all there is to fall back on
        is damaged. What is returned is durable.
        """
        files = self._files
        self._content, self.damage, self._is_damaged = None, None, False
        if files.status(self._directory) is None:
            return None
        if files.status(self.temporary_path) is not None:
            files.unlink(self.temporary_path)
        try:
            self._content, value = self._read(self.path, parse)
        except CorruptFileError as error:
            self.damage, self._is_damaged = error, True
            value = None
        if self._content is None:
            self._note_missing()
            if self.damage is not None or files.status(self.backup_path) is not None:
                hit("backup read")
            _, value = self._read(self.backup_path, parse)
        files.sync_directory(self._directory)
        return value

    def _note_missing(self) -> None:
        """Note that a crash came after the damaged version was kept aside, and before another took its name."""
        is_missing = self.damage is None and self._files.status(self.path) is None
        kept = next(self.damaged_paths)
        if is_missing and self._files.status(kept) is not None:
            self.damage = CorruptFileError(self.path, 0, "file", "a file", f"nothing; a damaged version is {kept}")

    def _read(self, path: str, parse: Callable[[bytes, str], Value]) -> tuple[bytes | None, Value | None]:
        """Return a version, durable, and its value; neither if it is missing or empty."""
        status = self._files.status(path)
        if status is None or status.size_bytes == 0:  # a crash can keep a new name and lose the size
            return None, None
        if status.size_bytes > SIDE_JSON_BYTES_MAX:
            raise CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", status.size_bytes)
        content = self._files.read(path)
        value = parse(content, path)
        self._files.sync(path)  # another system may have written it and never synced
        return content, value

    def store(self, content: bytes) -> bool:
        """Make content the current version, durably; return False, and do nothing, if it is that already.

        Raises OSError if the disk fails. Either version may then be the current one, and the next call writes again.
        Raises OSError(EFBIG), and nothing has changed, for content that `load` would refuse.
        """
        if content == self._content:
            return False
        if len(content) > SIDE_JSON_BYTES_MAX:
            expected = f"expected {SIDE_JSON_BYTES_MAX} bytes or less, found {len(content)}"
            raise OSError(errno.EFBIG, expected, self.path)
        old, self._content = self._content, None
        self._make_directory()
        self._write_aside(content)
        if old is not None:  # only a version that was read whole: a torn one must not replace the backup
            self._files.rename(self.path, self.backup_path)
        elif self._is_damaged:
            self._files.rename(self.path, next(path for path in self.damaged_paths if self._files.status(path) is None))
            self._is_damaged = False
        self._files.rename(self.temporary_path, self.path)
        self._files.sync_directory(self._directory)
        self._content = content
        return True

    def _make_directory(self) -> None:
        if not self._directory_is_durable:
            above = directory_of(self._directory)
            make_directory(self._files, self._directory, below=above)
            self._files.sync_directory(above)
            self._directory_is_durable = True

    def _write_aside(self, content: bytes) -> None:
        self._files.write(self.temporary_path, content)
        # Before the rename: after a power cut the name could lead to an empty file, or to half of one.
        self._files.sync(self.temporary_path)
