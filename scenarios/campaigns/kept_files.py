"""Kept files: results of a run, whole or absent after a power cut, and durable once they are written.

A file is written under another name, synced, renamed, and its directory is synced. So a crash never leaves half a file,
and never takes the earlier file of that name before the later one is durable.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from ...store.directories import directory_of, make_directory
from ...store.real.files import RealFiles


class _HostFiles(RealFiles):
    """Files of this machine. Where the file system cannot sync directories, it keeps names in its own way."""

    __slots__ = ()

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory durable, if the file system can."""
        try:
            super().sync_directory(path)
        except OSError as error:
            if error.errno != errno.EINVAL:  # fsync(2): the file does not support synchronization
                raise


_FILES = _HostFiles()


def make_kept_directory(path: str, below: str = "") -> None:
    """Create a directory, and make the name of each level durable. below: a durable one above it, where that ends."""
    make_directory(_FILES, path, below=below)
    if below:
        sync_names(below)


def sync_names(directory: str) -> None:
    """Make creations, renames and removals in a directory durable."""
    _FILES.sync_directory(directory)


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Yield a stream to write. When the block ends without an error, its bytes replace the file at a path."""
    directory = directory_of(path)
    aside = f"{directory}/.{os.path.basename(path)}.{uuid4().hex}"
    try:
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise
    sync_names(directory)


def keep_file(path: Path, text: str) -> None:
    """Write a text as a whole file, with its directories. A device or a pipe of that name is written to instead."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()  # a symbolic link stays one
    make_kept_directory(str(path.parent))
    with whole_file(str(path)) as stream:
        stream.write(text.encode())
