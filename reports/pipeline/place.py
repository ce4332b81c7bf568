"""Places: a path of this machine, or a URI: of HDFS or a view of it, or one that pyarrow.fs knows, as in s3://bucket/dir.

What is written through `whole_file` is there whole or not at all, by what each kind of file system promises:

    this machine    the bytes are synced, then the name is given in place of what has it, then the directory is synced:
                    durable when the call returns
    object stores   one call hands over all bytes, and the object appears when they are all there. Nothing is moved: it
                    would be copied, and a stream that is closed because of an error would leave half an object
    HDFS            a file is closed, then given the name in place of what has it, in one step of the name node. How
                    durable that is, is up to the file system
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from uuid import uuid4

from pyarrow import fs

from ...scenarios.campaigns import kept_files

_OBJECT_STORES = ("s3", "gcs", "abfs")
_HADOOP_S3 = ("s3a", "s3n")
_ASIDE = re.compile(r"\..+\.[0-9a-f]{32}")


def open_place(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a place, and its path there. ValueError or OSError for a URI that cannot be opened."""
    scheme, _, rest = place.partition("://")
    if rest and scheme in _HADOOP_S3:
        raise ValueError(f"{place}: expected s3://{rest}, found {scheme}://, the scheme of Hadoop's own client")
    if place.startswith(("hdfs://", "viewfs://")):
        from .hdfs import open_hdfs

        return open_hdfs(place)
    if "://" in place:
        system, path = fs.FileSystem.from_uri(place)
        return system, path
    return fs.LocalFileSystem(), place


def is_local(system: fs.FileSystem) -> bool:
    """Return whether files of a file system are this machine's."""
    return isinstance(system, fs.LocalFileSystem)


def is_object_store(place: str) -> bool:
    """Return whether a place is in an object store, by its URI."""
    return place.partition("://")[0] in ("s3", "gs", "gcs", "abfs", "abfss") and "://" in place


def make_directory(system: fs.FileSystem, path: str, *, below: str = "") -> None:
    """Make a directory, and those above it that are missing, each with a durable name on this machine.

    below: a directory above it that is durable with all above itself, so only the levels from there on are synced.
    """
    if is_local(system):
        kept_files.make_kept_directory(path, below)
    else:
        system.create_dir(path, recursive=True)


def sync_names(system: fs.FileSystem, directory: str) -> None:
    """Make removals from a directory durable, on this machine."""
    if is_local(system):
        kept_files.sync_names(directory)


@contextmanager
def whole_file(system: fs.FileSystem, path: str) -> Iterator[Any]:
    """Yield a stream to write, whose bytes replace the file at a path when the block ends, and not if it raises.

    For an object store they are in memory until then.
    """
    if system.type_name.removeprefix("py::") in _OBJECT_STORES:
        buffer = BytesIO()
        yield buffer
        with system.open_output_stream(path) as stream:
            stream.write(buffer.getbuffer())
        return
    if is_local(system):
        with kept_files.whole_file(path) as file:
            yield file
        return
    directory, _, name = path.rpartition("/")
    aside = f"{directory}/.{name}.{uuid4().hex}"
    try:
        with system.open_output_stream(aside) as stream:
            yield stream
        system.move(aside, path)
    except BaseException:
        if system.get_file_info(aside).type == fs.FileType.File:
            system.delete_file(aside)
        raise


@contextmanager
def streamed_file(system: fs.FileSystem, path: str) -> Iterator[Any]:
    """Yield a stream to write a long file, as `whole_file` does, but with little in memory for object stores, too.

    There, half an object may be at the path if the block raises: something else has to say that all is whole.
    """
    if system.type_name.removeprefix("py::") in _OBJECT_STORES:
        with system.open_output_stream(path) as stream:
            yield stream
        return
    with whole_file(system, path) as stream:
        yield stream


def is_aside(name: str) -> bool:
    """Return whether a name is that of a file which is, or was to be, given another one when it is whole."""
    return _ASIDE.fullmatch(name) is not None
