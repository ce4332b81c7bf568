"""Damage of single records while a store is off: bits of an image, and what the judge must know of them."""

from collections.abc import Iterable
from typing import NamedTuple

from ...faults.disk.image import FileImage, Image
from ...sim.choices import Stream
from ...store.message_store import MessageStore
from ..claims.machine import ROOT
from ..oracle.known_damage import Flaw
from ..oracle.put_entry import PutEntry

_QUEUE_OFFSET_AT, _QUEUE_OFFSET_BYTES = 20, 8
_MAGIC_AT = 4
_UNVOUCHED_SEGMENTS = 3
"""How many segments at the end a clean exit does not vouch for."""


class DamagedRecord(NamedTuple):
    """An image with one record that is not as it was put."""

    image: Image
    flaw: Flaw


def flip_number(
    image: Image, store: MessageStore, puts: Iterable[PutEntry], stream: Stream
) -> DamagedRecord | None:
    """Flip a bit of the queueOffset of one of the puts that are in the log; None if none is."""
    here = [put for put in puts if _path_of(store, put) in image.files]
    if not here:
        return None
    put = stream.pick(here, "record")
    bit = stream.below(_QUEUE_OFFSET_BYTES * 8, "bit")
    return _with_flipped_bit(image, store, put, _QUEUE_OFFSET_AT + bit // 8, bit % 8)


def damage_record(
    image: Image, store: MessageStore, puts: Iterable[PutEntry], stream: Stream
) -> DamagedRecord | None:
    """Flip a bit of the body, the magic or the size of a put in a segment that a clean exit vouches for; None without.

    Such a segment has others behind it, which were put to.
    """
    begun = [segment for segment in store.log.segments if segment.wrote.get()]
    vouched_end = begun[-_UNVOUCHED_SEGMENTS].base_offset if len(begun) > _UNVOUCHED_SEGMENTS else 0
    here = [
        put
        for put in puts
        if put.physical_offset is not None
        and put.physical_offset < vouched_end
        and _path_of(store, put) in image.files
    ]
    if not here:
        return None
    put = stream.pick(here, "record")
    body_at = put.given.body_at
    field_at = stream.pick((body_at, _MAGIC_AT, 0) if put.body else (_MAGIC_AT, 0), "field")
    byte = stream.below(len(put.body) if field_at == body_at else 4, "byte")
    return _with_flipped_bit(image, store, put, field_at + byte, stream.below(8, "bit"))


def without_queues(image: Image) -> Image:
    """Return an image whose queues are lost, as where somebody has them made anew; the checkpoint went with them."""
    directory = f"{ROOT}/consumequeue/"
    files = {
        path: file
        for path, file in image.files.items()
        if path != f"{ROOT}/checkpoint" and not path.startswith(directory)
    }
    return Image(files, tuple(path for path in image.directories if not f"{path}/".startswith(directory)))


def _path_of(store: MessageStore, put: PutEntry) -> str:
    """Return the path of the segment that a put's record is in, an empty one without."""
    segment = None if put.physical_offset is None else store.log.find(put.physical_offset)
    return "" if segment is None else segment.file.path


def _with_flipped_bit(image: Image, store: MessageStore, put: PutEntry, at: int, bit: int) -> DamagedRecord:
    """Return an image in which a bit of the byte at that place in a put's record is another one."""
    assert put.physical_offset is not None, put.name
    path, offset = _path_of(store, put), put.physical_offset + at
    file = image.files[path]
    position = offset % store.log.segment_bytes
    was = file.content[position : position + 1]
    became = bytes((was[0] ^ 1 << bit,))
    content = file.content[:position] + became + file.content[position + 1 :]
    files = {**image.files, path: FileImage(content, file.mtime_ms)}
    return DamagedRecord(Image(files, image.directories), Flaw(offset, was, became, put))
