"""Directory creation: makes the name of each directory durable.

The parent stores the name of a directory, so the name is durable only after a sync of the parent. If only the last
parent of a new path is synced, a power cut can remove the first new directory and everything below it.

Existing directories are synced too, because a killed process may have created them without a sync. The path begins at
`/`, or for a relative path at the working directory. The creator of the working directory must make its name durable.
"""

import errno
from collections.abc import Callable
from itertools import pairwise

from .world import Files

_CANNOT_SYNC = (errno.EACCES, errno.EINVAL, errno.EROFS)
"""Errors that a sync may return if the directory gets no new name: it is not readable, autofs or read-only."""


def directory_of(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head or slash or "."


def make_directory(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
    """Create a directory and its missing parents, and make the name of each durable.

    below: a parent of path with a durable name; the caller syncs the names in it. once_made: called after the creation,
    before the first sync. Raises OSError if a sync fails, unless the directory existed and its parent cannot be synced.
    """
    above = _parents_below(path, below)
    # The name of path must be durable even if another process created it.
    new = {path, *(level for level in above if directory_of(level) != level and files.status(level) is None)}
    files.make_directories(path)
    once_made()
    for parent, level in pairwise((*above, path)):
        assert directory_of(level) == parent, (parent, level)
        try:
            files.sync_directory(parent)
        except OSError as error:
            if level in new or error.errno not in _CANNOT_SYNC:
                raise


def _parents_below(path: str, below: str) -> list[str]:
    above: list[str] = []
    while (parent := directory_of(path)) not in (path, below):
        above.insert(0, parent)
        path = parent
    return above
