"""Places: opens local paths and URIs of HDFS and object stores, and writes whole files there.

A file written through `whole_file` appears complete or not at all. docs/sweeps.md says how, and which storage makes it
durable. Object stores get all bytes in one call: a rename would copy the object, and a stream closed by an error would
leave half an object.
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
    """Return the file system and path of a place. Raises ValueError or OSError for a bad URI."""
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
    return isinstance(system, fs.LocalFileSystem)


def is_object_store(place: str) -> bool:
    return place.partition("://")[0] in ("s3", "gs", "gcs", "abfs", "abfss") and "://" in place


def make_directory(system: fs.FileSystem, path: str, *, below: str = "") -> None:
    """Create a directory and its missing parents. On a local disk they are durable when the call returns.

    below: a parent with a durable name. Only directories below this parent are synced.
    """
    if is_local(system):
        kept_files.make_kept_directory(path, below)
    else:
        system.create_dir(path, recursive=True)


def sync_names(system: fs.FileSystem, directory: str) -> None:
    """Sync a local directory, so that removals from this directory are durable."""
    if is_local(system):
        kept_files.sync_names(directory)


@contextmanager
def whole_file(system: fs.FileSystem, path: str) -> Iterator[Any]:
    """Yield a stream. If the block ends without an error, the written bytes replace the file at `path`.

    Bytes for an object store stay in memory until the end of the block.
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
    """Like `whole_file`, but for long files: bytes for an object store are uploaded during the block.

    If the block raises, an object store may keep a partial object, so the caller must record completeness elsewhere.
    """
    if system.type_name.removeprefix("py::") in _OBJECT_STORES:
        with system.open_output_stream(path) as stream:
            yield stream
        return
    with whole_file(system, path) as stream:
        yield stream


def is_temporary_name(name: str) -> bool:
    """Return whether `whole_file` uses this name for a temporary file."""
    return _ASIDE.fullmatch(name) is not None
