"""HDFS for pyarrow: adapts an HDFS client that needs neither Java nor `libhdfs`.

The client reads Hadoop's settings from the directory HADOOP_CONF_DIR.
"""

import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from hdfs_native.fsspec import HdfsFileSystem
from pyarrow import fs


def open_hdfs(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system and path of hdfs://… or viewfs://…. Raises ValueError for an unusable URI."""
    parts = urlsplit(uri)
    if parts.query:
        raise ValueError(f"{uri}: HDFS is set up in HADOOP_CONF_DIR, not by ?{parts.query}")
    try:
        system = _connect(parts.scheme, parts.netloc, os.getpid())
    except RuntimeError as error:
        raise ValueError(f"{uri}: needs a port, or HADOOP_CONF_DIR with that name: {error}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), parts.path or "/"


@cache
def _connect(scheme: str, name: str, process: int) -> "_HdfsFileSystem":
    """process: makes each child create its own client, and never free the client of its parent."""
    # The default of 15 attempts takes 3 minutes, and is only useful with a second name node in a settings file.
    settings = {} if "HADOOP_CONF_DIR" in os.environ else {"dfs.client.failover.max.attempts": "3"}
    return (_HdfsFileSystem if scheme == "hdfs" else _ViewFileSystem)(name, **settings)


class _HdfsFileSystem(HdfsFileSystem):
    """HDFS with modification times and with moves that replace the target; pyarrow requires both."""

    cachable = False  # fsspec empties its own cache in every child

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.client = _NameNode(self.client, f"{self.protocol}://{self.host}")  # type: ignore[assignment]

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        super().mv(path1, path2, overwrite=True)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return _with_mtime(super().info(path, **options))

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        return [one if isinstance(one, str) else _with_mtime(one) for one in super().ls(path, detail, **options)]


class _ViewFileSystem(_HdfsFileSystem):
    """ViewFS: directories of several name nodes, mounted in one tree by a mount table."""

    protocol = "viewfs"


def _with_mtime(info: dict[str, Any]) -> dict[str, Any]:
    return {**info, "mtime": info["modification_time"] / 1000}  # Hadoop's times are in milliseconds


class _NameNode:
    """Turns errors of a name node into OSErrors that name the host."""

    def __init__(self, client: Any, place: str) -> None:
        self._client = client
        self._place = place

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)

        def named(path: str, *args: Any, **options: Any) -> Any:
            try:
                return call(path, *args, **options)
            except (FileNotFoundError, FileExistsError):
                raise
            except (OSError, RuntimeError) as error:
                why = str(error).partition("\\n")[0]  # the next lines are the stack trace of the name node
                raise OSError(getattr(error, "errno", None) or errno.EIO, why, f"{self._place}{path}") from error

        return named
