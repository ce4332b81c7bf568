"""Segment directories: where the segments of a queue lie, in one directory or in several by turns.

RocketMQ's MultiPathMappedFileQueue: segment number n goes to the (n mod p)-th of the sorted directories that are open
to new ones. Nothing writes down which that was: whatever directory has a name has that segment.
"""

from collections.abc import Sequence

from ..config import StoreConfig
from ..retention.disk_usage import used_ratio
from ..world import Files
from .segment import segment_name


class SegmentDirectories:
    """The directories of one queue."""

    def __init__(
        self,
        files: Files,
        writable: Sequence[str],
        read_only: Sequence[str] = (),
        *,
        used_ratio_max: float = 1.0,
    ) -> None:
        assert writable, "a queue without a directory for its segments"
        self.writable = tuple(sorted(writable))
        self.all = tuple(sorted({*writable, *read_only}))
        self._files = files
        self._used_ratio_max = used_ratio_max

    @classmethod
    def of_commit_log(cls, files: Files, config: StoreConfig) -> "SegmentDirectories":
        """Return those a store's log has."""
        return cls(
            files,
            config.writable_commit_log_directories,
            config.read_only_commit_log_directories,
            used_ratio_max=config.disk_space_clean_forcibly_ratio,
        )

    def make(self, synced: str) -> None:
        """Make the writable directories, durably but for names in the directory `synced`, which the caller syncs."""
        for path in self.writable:
            missing = [path]
            while self._files.status(above := directory_of(missing[-1])) is None and above:
                missing.append(above)
            self._files.make_directories(path)
            for made in reversed(missing):
                if directory_of(made) != synced:
                    self._files.sync_directory(directory_of(made) or "/")

    def present(self) -> list[str]:
        """Return the directories that exist."""
        return [directory for directory in self.all if self._files.status(directory) is not None]

    def paths(self) -> list[str]:
        """Return the path of everything in the directories that exist, in order of the names."""
        found = [
            f"{directory}/{name}"
            for directory in self.present()
            for name in self._files.list_directory(directory)
        ]
        return sorted(found, key=name_of)

    def path(self, base_offset: int, segment_bytes: int) -> str:
        """Return the path of the segment that begins at base_offset: where it is, else where it is to be made."""
        name = segment_name(base_offset)
        if len(self.all) == 1:
            return f"{self.all[0]}/{name}"
        for directory in self.all:
            if self._files.status(f"{directory}/{name}") is not None:
                return f"{directory}/{name}"
        open_to_new = [directory for directory in self.writable if self._has_room(directory)] or self.writable
        return f"{open_to_new[base_offset // segment_bytes % len(open_to_new)]}/{name}"

    def _has_room(self, directory: str) -> bool:
        if self._files.status(directory) is None:
            return True  # it will be made
        return used_ratio(self._files.space(directory)) <= self._used_ratio_max


def directory_of(path: str) -> str:
    """Return the directory that a path's last name is in."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """Return a path's last name."""
    return path.rpartition("/")[2]
