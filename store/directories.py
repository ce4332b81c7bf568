"""Directories: creates them, and makes the name of each level durable.

A directory's name is in the directory above it, and is durable only after a sync of that one. So a new path of three
levels needs three syncs. With a sync of the last parent alone a power cut can take the first level, and all below it.

Existing levels are synced, too: a process that was killed may have created them without the sync, and the page cache
does not tell. The chain ends at the top of the path: `/`, or the working directory for a relative path. The name of the
working directory is not part of the path, so it belongs to the process that created that directory.
"""

import errno
from collections.abc import Callable
from itertools import pairwise

from .world import Files

_CANNOT_SYNC = (errno.EACCES, errno.EINVAL, errno.EROFS)
"""Errors of a directory in which this process creates no name: one that it may not read, one of autofs, a read-only."""


def directory_of(path: str) -> str:
    """Return the directory that holds a path's last name: `.` for a relative path of one name."""
    head, slash, _ = path.rpartition("/")
    return head or slash or "."


def make_directory(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
    """Create a directory and the missing ones above it, and make the name of each level durable.

    below: a directory above path. Its own name is durable, and the caller syncs the names in it.
    once_made: called before the first sync.
    Raises OSError if a name may not be durable. An existing level in a directory that cannot be synced is passed over.
    """
    above = _above(path, below)
    # The path itself always counts as new: its name has to be durable even if another process created it.
    new = {path, *(level for level in above if directory_of(level) != level and files.status(level) is None)}
    files.make_directories(path)
    once_made()
    for parent, level in pairwise((*above, path)):
        try:
            files.sync_directory(parent)
        except OSError as error:
            if level in new or error.errno not in _CANNOT_SYNC:
                raise


def _above(path: str, below: str) -> list[str]:
    """Return the directories above a path, the highest first, down from below."""
    above: list[str] = []
    while (parent := directory_of(path)) not in (path, below):
        above.insert(0, parent)
        path = parent
    return above
