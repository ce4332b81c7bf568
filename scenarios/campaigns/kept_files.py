"""Kept files: writes result files durably and atomically.

A file is written under a temporary name, synced and renamed; then its directory is synced. After a crash, the name
refers to the complete old file or to the complete new file.
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


class _LenientHostFiles(RealFiles):
    """Host files. A file system that cannot sync directories is accepted."""

    __slots__ = ()

    def sync_directory(self, path: str) -> None:
        try:
            super().sync_directory(path)
        except OSError as error:
            if error.errno != errno.EINVAL:  # fsync(2): the file does not support synchronization
                raise


_FILES = _LenientHostFiles()


def make_kept_directory(path: str, below: str = "") -> None:
    """Durably create a directory and its missing parents. below: an ancestor that is already durable."""
    assert not below or f"{path}/".startswith(f"{below}/"), (path, below)
    make_directory(_FILES, path, below=below)
    if below:
        sync_names(below)


def sync_names(directory: str) -> None:
    _FILES.sync_directory(directory)


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Yield a stream. If the `with` block succeeds, the written bytes replace the file at `path`."""
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
    """Write a text file durably, and create its directories. A device or a pipe is written directly."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()  # replace the target of a symbolic link, not the link
    make_kept_directory(str(path.parent))
    with whole_file(str(path)) as stream:
        stream.write(text.encode())
