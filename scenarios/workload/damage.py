"""Image damage: changes files of a stopped store, or single records in them."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...faults.disk.image import FileImage, Image
from ...sim.choices import Stream
from ...store.config import StoreConfig
from ...store.directories import directory_of
from ...store.formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ...store.log.segment import segment_name
from ...store.message_store import MessageStore
from ..oracle.known_damage import DamagedBytes
from ..oracle.put_entry import PutEntry

_SECTOR_BYTES = 512
_SEGMENTS_WITH_A_MIDDLE = 3
_LATER_MS = 3_600_000
_FOREIGN_QUEUE_IDS = ("00", str(1 << 31), "\N{ARABIC-INDIC DIGIT ZERO}")
"""Numbers that are no queue ids: with a leading zero, too large, and with a digit that is not ASCII."""
_FOREIGN_INDEX_NAMES = (
    "notes",
    "19691231235959999",
    "20200931000000000",
    "20201301000000000",
    "20200930000000000/copy",
)
"""Names that are no time, times before 1970 and of days and months that do not exist, and a directory."""


class DamagedImage(NamedTuple):
    """A damaged image, and the first log offset at which records may be lost."""

    image: Image
    log_offset: int


def is_complete(image: Image, store: MessageStore) -> bool:
    """Return whether an image has the checkpoint and the whole log of a stopped store.

    If a part of the log is missing, the stop acknowledged data that was not durable. The checks after the next load
    find such a loss without more damage.
    """
    sizes = {segment.file.path: segment.size_bytes for segment in store.log.segments}
    found = {path: len(image.files[path].content) for path in sizes if path in image.files}
    return found == sizes and store.config.checkpoint_path in image.files


def zero_late_sector(image: Image, store: MessageStore, sectors_after: int = 0) -> DamagedImage | None:
    """Zero one of the last written sectors of the log of a stopped store, or return None if they are zero already.

    sectors_after: how many later written sectors of the segment stay, if there are that many.
    """
    segment = store.log.last_segment()
    if segment is None or segment.wrote.get() == 0:
        return None
    path = segment.file.path
    before = image.files[path]
    sector = max((segment.wrote.get() - 1) // _SECTOR_BYTES - sectors_after, 0)
    start = sector * _SECTOR_BYTES
    end = min(start + _SECTOR_BYTES, segment.size_bytes)
    content = before.content[:start] + bytes(end - start) + before.content[end:]
    if content == before.content:
        return None
    return DamagedImage(image_with_content(image, path, content), segment.base_offset + start)


def expose_old_blocks(image: Image, store: MessageStore) -> Image | None:
    """Fill the unwritten sectors of the last segment with bytes of the first; return None if there are none.

    After a crash, a file system that does not zero new blocks may return such bytes.
    """
    segments = store.log.segments
    paths = [segment.file.path for segment in segments]
    if len(segments) < 2 or paths[0] not in image.files or paths[-1] not in image.files:
        return None
    start = -(-segments[-1].wrote.get() // _SECTOR_BYTES) * _SECTOR_BYTES
    old, new = image.files[paths[0]].content, image.files[paths[-1]].content
    if len(new) != len(old) or any(new[start:]) or not any(old[start:]):
        return None
    return image_with_content(image, paths[-1], new[:start] + old[start:])


def add_refused_file(image: Image, store: MessageStore, stream: Stream) -> Image | None:
    """Give one file of log or queues a wrong size, kind or name, so that a load must refuse the directory.

    Return None if there is only one segment, which a load may then remove or extend.
    """
    segments = store.log.segments
    if len(segments) < 2:
        return None
    path = segments[0].file.path
    if path not in image.files:  # the removal of the segment has begun, and the next start repeats it
        return None
    content, end_offset = image.files[path].content, segments[-1].end_offset
    changes = [
        (path, content[:-_SECTOR_BYTES]),
        (path, content + bytes(_SECTOR_BYTES)),
        (f"{path}/copy", b""),  # a directory instead of the segment
        (f"{directory_of(path)}/{segment_name(end_offset)}", bytes(len(content) + 1)),
        (f"{directory_of(path)}/{segment_name(end_offset + 1)}", bytes(len(content))),
        (f"{directory_of(path)}/{segment_name(end_offset)[1:]}", bytes(len(content))),
    ]
    for queue_file in files_of_queues(image, store)[:1]:
        queue = directory_of(queue_file)
        changes += [(queue_file, image.files[queue_file].content + bytes(1)), (f"{queue_file}/copy", b""), (queue, b"")]
    changed, content = stream.choice(changes, "refused file")
    files = {
        each: file
        for each, file in image.files.items()
        if not f"{changed}/".startswith(f"{each}/") and not each.startswith(f"{changed}/")
    }
    directories = tuple(each for each in image.directories if not f"{each}/".startswith(f"{changed}/"))
    return image_with_file(Image(files, directories), changed, content)


def number_of_middle_segment(image: Image, store: MessageStore, stream: Stream) -> int | None:
    begun = [number for number, segment in enumerate(store.log.segments) if segment.wrote.get()]
    if len(begun) < _SEGMENTS_WITH_A_MIDDLE or store.log.segments[0].file.path not in image.files:
        return None
    return stream.choice(begun[1:-1], "missing segment")


def foreign_paths(image: Image, store: MessageStore, stream: Stream) -> list[str]:
    """Return paths of foreign files, as people and tools create them.

    Examples: a mount point's lost+found, notes, a directory without a queue, and a copy of a queue file. Some names are
    almost those of queues and index files.
    """
    config = store.config
    paths = [f"{config.commit_log_directory}/lost+found/#11", f"{config.consume_queue_directory}/notes"]
    queue_files = files_of_queues(image, store)
    if queue_files:
        topic, queue_id, name = queue_files[0].rsplit("/", 2)
        paths += [f"{topic}/old/{name}", f"{topic}/{queue_id}/{name}.bak"]
        paths.append(f"{topic}/{stream.choice(_FOREIGN_QUEUE_IDS, 'foreign queue id')}/{name}")
    if store.index is not None:
        paths.append(f"{config.index_directory}/{stream.choice(_FOREIGN_INDEX_NAMES, 'foreign index name')}")
    return paths


def add_segments_made_ahead(image: Image, store: MessageStore, stream: Stream) -> Image:
    """Add an empty segment two sizes after the newest one, and at random an unfinished one before it.

    RocketMQ makes segments ahead and does not sync their directory, so a power cut can lose any of them.
    """
    newest, directories = store.log.segments[-1], sorted(store.config.writable_commit_log_directories)
    size_bytes = newest.size_bytes
    next_path, last_path = (
        f"{directories[base // size_bytes % len(directories)]}/{segment_name(base)}"
        for base in (newest.end_offset, newest.end_offset + size_bytes)
    )
    unfinished_bytes = stream.choice((None, 0, size_bytes // 2), "bytes of an unfinished segment")
    if unfinished_bytes is not None:
        image = image_with_file(image, next_path, bytes(unfinished_bytes))
    return image_with_file(image, last_path, bytes(size_bytes))


def add_segment_made_twice(image: Image, store: MessageStore, stream: Stream) -> Image:
    """Add a second file of a segment, without data, in another directory of the log.

    A crash can leave an unfinished file, and a later process that does not see it creates the segment elsewhere.
    """
    segment = stream.choice(store.log.segments, "segment made twice")
    directory, name = segment.file.path.rsplit("/", 1)
    others = [path for path in store.config.writable_commit_log_directories if path != directory]
    size_bytes = stream.choice((0, segment.size_bytes // 2, segment.size_bytes), "bytes of an empty segment")
    return image_with_file(image, f"{stream.choice(others, 'other directory')}/{name}", bytes(size_bytes))


def files_of_queues(image: Image, store: MessageStore) -> list[str]:
    rows = [queue.queue for queue in store.queues.all_queues()]
    paths = [segment.file.path for row in rows for segment in row.segments]
    return [path for path in paths if path in image.files]


def queues_with_entries_for(image: Image, queue_files: Iterable[str], log_offsets: set[int]) -> set[str]:
    known = set[str]()
    for path in queue_files if log_offsets else ():
        content = image.files[path].content
        for at in range(0, len(content) - ENTRY_BYTES + 1, ENTRY_BYTES):
            entry = decode_entry(content, at)
            if is_valid(entry) and entry.physical_offset in log_offsets:
                known.add(directory_of(path))
    return known


def image_with_file(image: Image, path: str, content: bytes) -> Image:
    """Return an image in which a file has the given content. Missing directories are created."""
    directories = set(image.directories)
    above = path.rpartition("/")[0]
    while above:
        directories.add(above)
        above = above.rpartition("/")[0]
    mtime_ms = image.files[path].mtime_ms if path in image.files else 0
    return Image({**image.files, path: FileImage(content, mtime_ms)}, tuple(sorted(directories)))


def damaged_checkpoint(content: bytes, stream: Stream) -> bytes:
    """Return a checkpoint that, at random, has a negative time, later times, is truncated, empty or unchanged.

    It has later times if an operator restored an older copy of the other files.
    """
    which = stream.choice(("whole", "negative", "cut", "emptied", "later"), "damage of the checkpoint")
    if which == "later":
        times = (int.from_bytes(content[at : at + 8], "big") + _LATER_MS for at in (0, 8, 16))
        return b"".join(time.to_bytes(8, "big") for time in times) + content[24:]
    if which == "negative":
        at = 8 * stream.randbelow(3, "negative time")
        return content[:at] + b"\xff" * 8 + content[at + 8 :]
    if which == "cut":
        return content[: 1 + stream.randbelow(23, "bytes left of the checkpoint")]
    return b"" if which == "emptied" else content


def log_files(image: Image, store: MessageStore) -> dict[str, FileImage]:
    directories = tuple(f"{directory}/" for directory in store.config.commit_log_directories)
    return {path: file for path, file in image.files.items() if path.startswith(directories)}


def image_with_content(image: Image, path: str, content: bytes) -> Image:
    files = {**image.files, path: FileImage(content, image.files[path].mtime_ms)}
    return Image(files, tuple(image.directories))


_QUEUE_OFFSET_AT, _QUEUE_OFFSET_BYTES = 20, 8
_MAGIC_AT = 4
_ALWAYS_READ_SEGMENTS = 3
"""The number of last segments that recovery reads even after a clean stop."""


MissingOffsets = Mapping[tuple[str, int], Collection[int]]
"""Topic and queue -> queue offsets without a record."""


class DamagedRecord(NamedTuple):
    """An image with one changed record."""

    image: Image
    flaw: DamagedBytes


def flip_queue_offset(
    image: Image, store: MessageStore, puts: Iterable[PutEntry], stream: Stream, missing_offsets: MissingOffsets
) -> DamagedRecord | None:
    """Flip a bit of a put's queueOffset, or return None if the log has no put.

    missing_offsets: the queue offsets that queues skip. If one flipped bit can hide such a gap, that bit is
    chosen with a chance of one half.
    """
    here = [put for put in puts if put.is_queued and _segment_path_of(store, put) in image.files]
    if not here:
        return None
    hiding = [(put, bit) for put in here if (bit := _bit_hiding_a_gap(put, missing_offsets)) is not None]
    if hiding and stream.chance(0.5, "hides a gap"):
        put, bit = stream.choice(hiding, "record behind a gap")
    else:
        put = stream.choice(here, "record")
        bit = stream.randbelow(_QUEUE_OFFSET_BYTES * 8, "bit")
    return _with_flipped_bit(image, store, put, _QUEUE_OFFSET_AT + bit // 8, bit % 8)


def _bit_hiding_a_gap(put: PutEntry, missing_offsets: MissingOffsets) -> int | None:
    """Return the bit that changes a put's queue offset into the one that it would have without the gap.

    If the put is the first after the gap, the flip hides the gap. If the put is the second, it then contradicts the
    first. Bits count from the first byte.
    """
    number, skipped = put.queue_offset or 0, missing_offsets.get(put.place, ())
    following = first = number if number - 1 in skipped else number - 1
    while following - 1 in skipped:
        following -= 1
    wrong = number ^ (number - first + following)
    if wrong.bit_count() != 1:
        return None
    low = wrong.bit_length() - 1
    return (_QUEUE_OFFSET_BYTES - 1 - low // 8) * 8 + low % 8


def damage_record(image: Image, store: MessageStore, puts: Iterable[PutEntry], stream: Stream) -> DamagedRecord | None:
    """Flip a bit of body, magic or size of a put that recovery does not read after a clean stop.

    Return None if there is no such put. The put's segment must have later segments with records.
    """
    begun = [segment for segment in store.log.segments if segment.wrote.get()]
    unread_end = begun[-_ALWAYS_READ_SEGMENTS].base_offset if len(begun) > _ALWAYS_READ_SEGMENTS else 0
    here = [
        put
        for put in puts
        if put.physical_offset is not None
        and put.is_queued
        and put.physical_offset < unread_end
        and _segment_path_of(store, put) in image.files
    ]
    if not here:
        return None
    put = stream.choice(here, "record")
    body_at = put.content.body_at
    field_at = stream.choice((body_at, _MAGIC_AT, 0) if put.body else (_MAGIC_AT, 0), "field")
    byte = stream.randbelow(len(put.body) if field_at == body_at else 4, "byte")
    return _with_flipped_bit(image, store, put, field_at + byte, stream.randbelow(8, "bit"))


def without_queues(image: Image, config: StoreConfig) -> Image:
    """Return an image without queues and checkpoint, as before a rebuild."""
    directory = f"{config.consume_queue_directory}/"
    files = {
        path: file
        for path, file in image.files.items()
        if path != config.checkpoint_path and not path.startswith(directory)
    }
    return Image(files, tuple(path for path in image.directories if not f"{path}/".startswith(directory)))


def without_derived_files(image: Image, config: StoreConfig, kept: Collection[str] = ()) -> Image:
    """Return an image without queues and index, except the files in `kept`.

    The checkpoint keeps its size, and its bytes are zero.
    """
    derived, checkpoint = (f"{config.consume_queue_directory}/", f"{config.index_directory}/"), config.checkpoint_path
    files = {path: file for path, file in image.files.items() if path in kept or not path.startswith(derived)}
    directories = tuple(
        path
        for path in image.directories
        if not f"{path}/".startswith(derived) or any(one.startswith(f"{path}/") for one in kept)
    )
    return image_with_content(Image(files, directories), checkpoint, bytes(len(files[checkpoint].content)))


def _segment_path_of(store: MessageStore, put: PutEntry) -> str:
    segment = None if put.physical_offset is None else store.log.find(put.physical_offset)
    return "" if segment is None else segment.file.path


def _with_flipped_bit(image: Image, store: MessageStore, put: PutEntry, at: int, bit: int) -> DamagedRecord:
    assert put.physical_offset is not None, put.name
    path, offset = _segment_path_of(store, put), put.physical_offset + at
    content, position = image.files[path].content, offset % store.log.segment_bytes
    was = content[position : position + 1]
    became = bytes((was[0] ^ 1 << bit,))
    flipped = content[:position] + became + content[position + 1 :]
    return DamagedRecord(image_with_content(image, path, flipped), DamagedBytes(offset, was, became, put))
