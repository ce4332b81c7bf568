"""What happens to a store's files while nobody looks: damage of an image, not of a running disk."""

from typing import NamedTuple

from ..faults.image import FileImage, Image
from ..store.message_store import MessageStore

_SECTOR_BYTES = 512


class Damage(NamedTuple):
    """A damaged image, and the log offset from which on nothing can be expected of it."""

    image: Image
    log_offset: int


def lose_last_sector(image: Image, store: MessageStore) -> Damage | None:
    """Zero the sector with the last byte of the log of a stopped store; None if that changes nothing."""
    segment = store.log.last()
    if segment is None or segment.wrote.get() == 0:
        return None
    path = segment.file.path
    before = image.files[path]
    start = (segment.wrote.get() - 1) // _SECTOR_BYTES * _SECTOR_BYTES
    end = min(start + _SECTOR_BYTES, segment.size_bytes)
    content = before.content[:start] + bytes(end - start) + before.content[end:]
    if content == before.content:
        return None
    files = {**image.files, path: FileImage(content, before.mtime_ms)}
    return Damage(Image(files, tuple(image.directories)), segment.base_offset + start)
