"""Places: a path of this machine, or a URI that pyarrow.fs knows, as in hdfs://host/dir or s3://bucket/dir."""

from pyarrow import fs


def open_place(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system a place is in, and its path there. Raises what pyarrow does for a URI it cannot open."""
    if "://" in place:
        system, path = fs.FileSystem.from_uri(place)
        return system, path
    return fs.LocalFileSystem(), place
