"""Side file: a small file that is only replaced as a whole. RocketMQ's ConfigManager.

A new version is written to `.tmp`, synced and renamed. The previous version stays as `.bak`, a damaged version as
`.damaged`. After each rename at least one complete version exists, even if a power cut undoes some renames. An
unreadable version never replaces a readable one. Source: RocketMQ ConfigManager.load, MixAll.string2File; RocketMQ
syncs neither the file before the rename nor the directory.
"""

import errno
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from .directories import directory_of, make_directory
from .errors import CorruptFileError
from .formats.side_json import SIDE_JSON_BYTES_MAX
from .marks import count_mark
from .world import Files

Value = TypeVar("Value")


class SideFile:
    """A side file, used by one task at a time."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.damage: CorruptFileError | None = None
        """Reason why the last `load` could not use the current version."""
        self._is_damaged = False
        """Whether the main file is damaged, so that the next `store` must rename it first."""
        self._files = files
        self._directory = directory_of(path)
        self._content: bytes | None = None
        """The current version; None if it may be incomplete or not durable."""
        self._directory_is_durable = False

    @property
    def backup_path(self) -> str:
        return f"{self.path}.bak"

    @property
    def temporary_path(self) -> str:
        """Path of a new version before the rename. `load` removes the file if a crash left it."""
        return f"{self.path}.tmp"

    @property
    def damaged_paths(self) -> Iterator[str]:
        """Yield paths for damaged versions. The first free path is used."""
        yield f"{self.path}.damaged"
        yield from (f"{self.path}.damaged.{number}" for number in count(1))

    @property
    def is_current(self) -> bool:
        return self._content is not None

    def load(self, parse: Callable[[bytes, str], Value]) -> Value | None:
        """Return the parsed current version, else the previous version; None if both are missing.

        The returned version is durable. parse gets the bytes and the path, and may raise CorruptFileError. If parse
        raises it for both versions, `load` raises it too.
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
            self._report_interrupted_replacement()
            if self.damage is not None or files.status(self.backup_path) is not None:
                count_mark("backup read")
            _, value = self._read(self.backup_path, parse)
        files.sync_directory(self._directory)
        return value

    def _report_interrupted_replacement(self) -> None:
        is_missing = self.damage is None and self._files.status(self.path) is None
        kept = next(self.damaged_paths)
        if is_missing and self._files.status(kept) is not None:
            self.damage = CorruptFileError(self.path, 0, "file", "a file", f"no file; a damaged version is {kept}")

    def _read(self, path: str, parse: Callable[[bytes, str], Value]) -> tuple[bytes | None, Value | None]:
        """Make one version durable. Returns its bytes and parsed value, None for a missing or empty file."""
        status = self._files.status(path)
        if status is None or status.size_bytes == 0:  # a crash can keep a file's new name but lose its size
            return None, None
        if status.size_bytes > SIDE_JSON_BYTES_MAX:
            raise CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", status.size_bytes)
        content = self._files.read(path)
        value = parse(content, path)
        self._files.sync(path)  # RocketMQ may have written the file without a sync
        return content, value

    def store(self, content: bytes) -> bool:
        """Durably store content as the current version.

        Returns False, without a write, if the file already has this content. Raises OSError if the disk fails; the next
        call writes again. Raises OSError(EFBIG), without a write, if content is larger than `load` permits.
        """
        if content == self._content:
            return False
        if len(content) > SIDE_JSON_BYTES_MAX:
            expected = f"expected {SIDE_JSON_BYTES_MAX} bytes or less, found {len(content)}"
            raise OSError(errno.EFBIG, expected, self.path)
        old, self._content = self._content, None
        self._make_directory()
        self._write_temporary(content)
        if old is not None:  # only a complete version may replace the backup
            self._files.rename(self.path, self.backup_path)
        elif self._is_damaged:
            self._files.rename(self.path, next(path for path in self.damaged_paths if self._files.status(path) is None))
            self._is_damaged = False
        self._files.rename(self.temporary_path, self.path)
        self._files.sync_directory(self._directory)
        self._content = content
        return True

    def store_alone(self, content: bytes) -> bool:
        """As `store`, but durably remove the backup, because both older versions have become wrong."""
        if self._content is not None:  # else the backup may be the only readable version
            self._remove_backup()
            self._content = None
        written = self.store(content)
        self._remove_backup()
        return written

    def _remove_backup(self) -> None:
        if self._files.status(self.backup_path) is not None:
            self._files.unlink(self.backup_path)
            self._files.sync_directory(self._directory)

    def _make_directory(self) -> None:
        if not self._directory_is_durable:
            above = directory_of(self._directory)
            make_directory(self._files, self._directory, below=above)
            self._files.sync_directory(above)
            self._directory_is_durable = True

    def _write_temporary(self, content: bytes) -> None:
        self._files.write(self.temporary_path, content)
        # Without this sync, the name could refer to an incomplete file after a power cut.
        self._files.sync(self.temporary_path)
