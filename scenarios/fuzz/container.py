"""Containers: a store directory packed into one input, big-endian.

offset  bytes  field
0       4      magic     "TLD1"
4       1      settings  1: recovery trusts the checkpoint; 2: queues have extensions
5              entries, sorted by path:

0       1      kind      "f" a file, "d" a directory
1       2      P         bytes of the path
3       P      path      below the root, UTF-8
3+P     4      size      of a file; absent for a directory
7+P            content
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct

from ...faults.disk.image import FileImage, Image
from .shape import ShapePart

MAGIC = b"TLD1"
TRUSTS_CHECKPOINT, HAS_EXTENSIONS = 1, 2
_FILE, _DIRECTORY = _KINDS = (b"f", b"d")
_PATH = Struct(">cH")
_SIZE = Struct(">I")
_HEAD_BYTES = len(MAGIC) + 1


@dataclass(frozen=True, slots=True)
class DirectoryContent:
    """The contents of a store directory by path; None for a directory."""

    settings: int
    entries: Mapping[str, bytes | None]

    def image(self, root: str, mtime_ms: int) -> Image:
        directories, files = {root}, {}
        for path, content in self.entries.items():
            names = path.split("/")
            last = len(names) if content is None else len(names) - 1
            directories.update(f"{root}/{'/'.join(names[:count])}" for count in range(1, last + 1))
            if content is not None:
                files[f"{root}/{path}"] = FileImage(content, mtime_ms)
        return Image(files, tuple(directories))


def directory_of_image(image: Image, root: str, settings: int) -> DirectoryContent:
    below = f"{root}/"
    entries: dict[str, bytes | None] = dict.fromkeys(image.directories)
    entries |= {path: file.content for path, file in image.files.items()}
    here = sorted(path for path in entries if path.startswith(below))
    return DirectoryContent(settings, {path.removeprefix(below): entries[path] for path in here})


def pack_directory(directory: DirectoryContent) -> bytes:
    parts = [MAGIC, bytes([directory.settings])]
    for path, content in directory.entries.items():
        name = path.encode()
        parts += (_PATH.pack(_DIRECTORY if content is None else _FILE, len(name)), name)
        if content is not None:
            parts += (_SIZE.pack(len(content)), content)
    return b"".join(parts)


def unpack_directory(raw: bytes) -> DirectoryContent | None:
    """Unpack an input. Return None if no file system could contain the directory."""
    if len(raw) < _HEAD_BYTES or not raw.startswith(MAGIC):
        return None
    entries: dict[str, bytes | None] = {}
    end = _HEAD_BYTES
    for at, end in entry_parts(raw):
        kind, name_bytes = _PATH.unpack_from(raw, at)
        content_at = at + _PATH.size + name_bytes
        name = raw[at + _PATH.size : content_at]
        if kind not in _KINDS or not _is_path(name) or name.decode() in entries:
            return None
        entries[name.decode()] = raw[content_at + _SIZE.size : end] if kind == _FILE else None
    if end != len(raw) or _has_file_above(entries):
        return None
    return DirectoryContent(raw[len(MAGIC)], entries)


def entry_parts(raw: bytes) -> Iterator[ShapePart]:
    """Yield the offset of each entry in a packed directory, up to the first invalid length."""
    at = _HEAD_BYTES
    while at + _PATH.size <= len(raw):
        kind, name_bytes = _PATH.unpack_from(raw, at)
        end = at + _PATH.size + name_bytes
        if kind == _FILE:
            end += _SIZE.size
            if end > len(raw):
                return
            end += _SIZE.unpack_from(raw, end - _SIZE.size)[0]
        if end > len(raw):
            return
        yield ShapePart(at, end)
        at = end


def _is_path(name: bytes) -> bool:
    try:
        names = name.decode().split("/")
    except UnicodeDecodeError:
        return False
    return b"\0" not in name and all(one not in ("", ".", "..") and len(one.encode()) < 256 for one in names)


def _has_file_above(entries: Mapping[str, bytes | None]) -> bool:
    for path in entries:
        while path := path.rpartition("/")[0]:
            if entries.get(path) is not None:
                return True
    return False
