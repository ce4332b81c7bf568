"""Export: copies images to and from real directories, for real stores and RocketMQ."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from .content import PAGE_BYTES, Content, SparseBytes
from .image import FileImage, Image

_READ_BYTES = 1 << 20
_BUFFERS_MAX = 1024  # IOV_MAX of Linux


def export_image(image: Image, root: str, directory: Path) -> None:
    below = root.rstrip("/") + "/"
    for path in image.directories:
        if path.startswith(below):
            (directory / path[len(below) :]).mkdir(parents=True, exist_ok=True)
    for path, file in image.files.items():
        if path.startswith(below):
            write_file(f"{directory}/{path[len(below) :]}", file)
    for path, text in image.symlinks.items():  # links last, so that no write follows a link
        if path.startswith(below):
            (directory / path[len(below) :]).symlink_to(text)


def write_file(path: str, file: FileImage) -> None:
    """Write a new file. Holes of a sparse file stay holes."""
    # System calls, because a probe writes files for each crash state, and a file object costs more.
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        content, end = file.held, 0
        for at, run in content.runs() if isinstance(content, SparseBytes) else ((0, [content]),):
            end = _write_run(target, at, run)
        if end != len(content):
            os.truncate(target, len(content))
        os.utime(target, ns=(file.mtime_ms * 1_000_000, file.mtime_ms * 1_000_000))
    finally:
        os.close(target)


def _write_run(target: int, at: int, run: list[bytes]) -> int:
    """Write successive buffers without a copy of them, and return the offset after them."""
    for first in range(0, len(run), _BUFFERS_MAX):
        some = run[first : first + _BUFFERS_MAX]
        end = at + sum(map(len, some))
        at += os.pwritev(target, some, at)
        if at < end:  # the system has written a part
            rest = b"".join(some)
            while at < end:
                at += os.pwrite(target, rest[at - end :], at)
    return at


def load_image(directory: Path, root: str) -> Image:
    """Read a real directory as an image. root: path of the directory in the image."""
    base = root.rstrip("/")
    parts = base.split("/")
    directories = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    files, symlinks = {}, {}
    for entry in sorted(directory.rglob("*")):
        path = f"{base}/{entry.relative_to(directory).as_posix()}"
        if entry.is_symlink():
            symlinks[path] = os.readlink(entry)
        elif entry.is_dir():
            directories.append(path)
        else:
            files[path] = FileImage(_read_content(entry), entry.stat().st_mtime_ns // 1_000_000)
    return Image(files, tuple(directories), symlinks)


def _read_content(file: Path) -> Content:
    """Return plain bytes, or sparse bytes if the file has holes."""
    with file.open("rb") as opened:
        size_bytes = os.fstat(opened.fileno()).st_size
        extents = list(_data_ranges(opened.fileno(), size_bytes))
        if extents == [(0, size_bytes)] or not size_bytes:
            return os.pread(opened.fileno(), size_bytes, 0)
        content = SparseBytes(size_bytes)
        for start, end in extents:
            for at in range(start - start % PAGE_BYTES, end, _READ_BYTES):
                data = os.pread(opened.fileno(), min(_READ_BYTES, size_bytes - at), at)
                content[at : at + len(data)] = data
        return content


def _data_ranges(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    at = 0
    while at < size_bytes:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # the rest of the file is a hole
        at = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, at
