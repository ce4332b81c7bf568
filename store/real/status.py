"""What the operating system knows of a name, in the store's terms."""

from typing import NamedTuple


class RealFileStatus(NamedTuple):
    """Fits world.FileStatus."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class RealDiskSpace(NamedTuple):
    """How full a file system is."""

    used_bytes: int
    usable_bytes: int
