"""Store defects: change files of the store of `store_at`, and name the broken promise and the file.

Defects in a group do not hide each other, and are planted in one directory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LOG_BYTES, QUEUE_BYTES, SLOTS, ENTRIES = 16 << 10, 600, 50, 41
INDEX_ENTRIES_AT = 40 + 4 * SLOTS
Plant = Callable[[Path], str]
"""Changes a directory, and returns the relative path of the damaged file."""


class Defect(NamedTuple):
    name: str
    promise: str
    plant: Plant


def segment(number: int) -> str:
    return f"commitlog/{number * LOG_BYTES:020}"


def queue(queue_id: int, number: int) -> str:
    return f"consumequeue/T/{queue_id}/{number * QUEUE_BYTES:020}"


def index_file(root: Path, number: int) -> Path:
    return sorted((root / "index").iterdir())[number]


def starts_of(raw: bytes) -> list[int]:
    """Return the starts of the records of a segment, and the start of the blank record or zeros after them."""
    starts = [0]
    while starts[-1] + 8 <= len(raw) and raw[starts[-1] + 4 : starts[-1] + 8] == raw[4:8]:
        starts.append(starts[-1] + int.from_bytes(raw[starts[-1] : starts[-1] + 4], "big"))
    return starts


def edit_file(name: str, edit: Callable[[bytearray], None]) -> Plant:
    def plant(root: Path) -> str:
        raw = bytearray((root / name).read_bytes())
        edit(raw)
        (root / name).write_bytes(raw)
        return name

    return plant


def overwrite_in_record(number: int, record: int, at: int, new: bytes) -> Plant:
    """Return a plant that overwrites bytes of a record."""

    def edit(raw: bytearray) -> None:
        start = starts_of(raw)[record] + at
        raw[start : start + len(new)] = new

    return edit_file(segment(number), edit)


def replace_record(number: int, source: int, target: int) -> Plant:
    """Return a plant that replaces a record by another one, but keeps the physical offset."""

    def edit(raw: bytearray) -> None:
        starts = starts_of(raw)
        record = raw[starts[source] : starts[source + 1]]
        assert len(record) == starts[target + 1] - starts[target]
        place = (number * LOG_BYTES + starts[target]).to_bytes(8, "big")
        raw[starts[target] : starts[target + 1]] = record[:28] + place + record[36:]

    return edit_file(segment(number), edit)


def overwrite_in_entry(name: str, entry: int, at: int, new: bytes) -> Plant:
    """Return a plant that overwrites bytes of a queue entry."""

    def edit(raw: bytearray) -> None:
        raw[entry * 20 + at : entry * 20 + at + len(new)] = new

    return edit_file(name, edit)


def overwrite_in_checkpoint(at: int, new: bytes) -> Plant:
    def edit(raw: bytearray) -> None:
        raw[at : at + len(new)] = new

    return edit_file("checkpoint", edit)


def swap_entries(name: str, entry: int, other: int) -> Plant:
    def edit(raw: bytearray) -> None:
        one, two = (slice(number * 20, number * 20 + 20) for number in (entry, other))
        raw[one], raw[two] = raw[two], raw[one]

    return edit_file(name, edit)


def remove_last_entries(queue_id: int, count: int) -> Plant:
    """Return a plant that removes the last entries of a queue; the report names their records."""

    def plant(root: Path) -> str:
        path = sorted((root / f"consumequeue/T/{queue_id}").iterdir())[-1]
        raw = path.read_bytes()
        end = len(raw.rstrip(b"\0")) + 19
        end -= end % 20
        path.write_bytes(raw[: end - 20 * count].ljust(len(raw), b"\0"))
        return last_segment(root)

    return plant


def last_segment(root: Path) -> str:
    begun = [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes()[:8])]
    return str(begun[-1].relative_to(root))


def append_half_record(root: Path) -> str:
    """Append the first half of a record."""
    name = last_segment(root)
    raw = bytearray((root / name).read_bytes())
    starts = starts_of(raw)
    half = (starts[1] - starts[0]) // 2
    record = raw[:28] + (int(name[-20:]) + starts[-1]).to_bytes(8, "big") + raw[36:half]
    raw[starts[-1] : starts[-1] + half] = record
    (root / name).write_bytes(raw)
    return name


def add_entry_beyond_log_end(queue_id: int) -> Plant:
    """Return a plant that adds an entry beyond the end of the log."""

    def plant(root: Path) -> str:
        path = sorted((root / f"consumequeue/T/{queue_id}").iterdir())[-1]
        raw = bytearray(path.read_bytes())
        end = len(raw.rstrip(b"\0")) + 19
        end -= end % 20
        raw[end : end + 20] = (10 << 20).to_bytes(8, "big") + raw[end - 12 : end]
        path.write_bytes(raw)
        return str(path.relative_to(root))

    return plant


def overwrite_in_index_file(number: int, at: int, new: bytes) -> Plant:
    """Return a plant that overwrites bytes of an index file."""

    def plant(root: Path) -> str:
        path = index_file(root, number)
        raw = bytearray(path.read_bytes())
        assert raw[at : at + len(new)] != new
        raw[at : at + len(new)] = new
        path.write_bytes(raw)
        return str(path.relative_to(root))

    return plant


def entry_at(number: int) -> int:
    return INDEX_ENTRIES_AT + 20 * number


def remove_file(name: str, *, named: str | None = None) -> Plant:
    def plant(root: Path) -> str:
        (root / name).unlink()
        return name if named is None else named

    return plant


def truncate_file(name: str, size_bytes: int) -> Plant:
    def plant(root: Path) -> str:
        (root / name).write_bytes((root / name).read_bytes()[:size_bytes])
        return name

    return plant


def create_path(name: str, content: bytes | None) -> Plant:
    """Return a plant that creates a file or directory."""

    def plant(root: Path) -> str:
        if content is None:
            (root / name).mkdir(parents=True)
        else:
            (root / name).write_bytes(content)
        return name

    return plant


def remove_queue(root: Path) -> str:
    for path in (root / "consumequeue/T/1").iterdir():
        path.unlink()
    (root / "consumequeue/T/1").rmdir()
    return segment(0)


def remove_index(root: Path) -> str:
    for path in (root / "index").iterdir():
        path.unlink()
    (root / "index").rmdir()
    return "index"


def remove_index_files(root: Path) -> str:
    for path in (root / "index").iterdir():
        path.unlink()
    return segment(0)


def truncate_index_file(number: int) -> Plant:
    def plant(root: Path) -> str:
        path = index_file(root, number)
        path.write_bytes(path.read_bytes()[:-20])
        return str(path.relative_to(root))

    return plant


def corrupt_slot(number: int) -> Plant:
    def plant(root: Path) -> str:
        path = index_file(root, number)
        raw = bytearray(path.read_bytes())
        at = next(at for at in range(43, INDEX_ENTRIES_AT, 4) if raw[at])
        raw[at] ^= 1
        path.write_bytes(raw)
        return str(path.relative_to(root))

    return plant


def mark_unclean(root: Path) -> None:
    """Make the store look as if it had crashed."""
    (root / "abort").touch()


def big_endian_long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def big_endian_int(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def duplicate_entry(root: Path, name: str) -> str:
    raw = (root / name).read_bytes()
    return overwrite_in_entry(name, 8, 0, raw[7 * 20 : 8 * 20])(root)


def zero_last_entries(root: Path, name: str) -> str:
    return overwrite_in_entry(name, 28, 0, bytes(40))(root)


def corrupt_last_tag(root: Path, queue_id: int) -> str:
    path = sorted((root / f"consumequeue/T/{queue_id}").iterdir())[-1]
    end = len(path.read_bytes().rstrip(b"\0")) + 19
    return overwrite_in_entry(str(path.relative_to(root)), end // 20 - 1, 12, big_endian_long(99))(root)


CLEAN: dict[str, list[Defect]] = {
    "records of a log": [
        Defect("a bit of a body", "LOG", overwrite_in_record(0, 2, 100, b"\xff")),
        Defect("a record's length", "LOG", overwrite_in_record(1, 3, 0, big_endian_int(1 << 30))),
        Defect("a record's magic", "LOG", overwrite_in_record(2, 4, 4, big_endian_int(7))),
        Defect("damage behind the last record of a store that was stopped", "LOG", append_half_record),
        Defect("a checkpoint from the future", "CKPT", overwrite_in_checkpoint(0, big_endian_long(1 << 60))),
    ],
    "more records of a log": [
        Defect("a record that is zeros", "LOG", overwrite_in_record(0, 2, 0, bytes(300))),
        Defect("a record's own offset", "LOG", overwrite_in_record(1, 3, 28, big_endian_long(5))),
        Defect("a body's length", "LOG", overwrite_in_record(2, 4, 84, big_endian_int(-1))),
        Defect("a negative checkpoint", "CKPT", overwrite_in_checkpoint(8, big_endian_long(-5))),
    ],
    "files of a log": [
        Defect("a segment that is gone", "LOG", remove_file(segment(1), named=segment(2))),
        Defect("a stray file beside the segments", "LOG", create_path("commitlog/notes.txt", b"by hand")),
        Defect("a short checkpoint", "CKPT", truncate_file("checkpoint", 7)),
    ],
    "a cut log": [
        Defect("a segment that was cut", "LOG", truncate_file(segment(1), 9000)),
        Defect("no checkpoint", "CKPT", remove_file("checkpoint")),
    ],
    "queue offsets": [
        Defect("a record's queueOffset", "QOFF", overwrite_in_record(0, 3, 20, big_endian_long(77))),
        Defect("a record that is there twice", "QOFF", replace_record(1, 2, 6)),
    ],
    "entries of queues": [
        Defect("an entry's size", "CQ-VALID", overwrite_in_entry(queue(0, 0), 1, 8, big_endian_int(12))),
        Defect("an entry's tag", "CQ-VALID", overwrite_in_entry(queue(0, 1), 3, 12, big_endian_long(99))),
        Defect("an entry that leads elsewhere", "CQ-VALID", overwrite_in_entry(queue(0, 2), 5, 0, big_endian_long(7))),
        Defect("a hole", "CQ-VALID", overwrite_in_entry(queue(1, 0), 5, 0, bytes(20))),
        Defect("two entries exchanged", "CQ-VALID", swap_entries(queue(1, 1), 7, 8)),
        Defect("an entry behind the log's end", "CQ-VALID", add_entry_beyond_log_end(1)),
    ],
    "more entries of queues": [
        Defect("a negative size", "CQ-VALID", overwrite_in_entry(queue(0, 0), 4, 8, big_endian_int(-4))),
        Defect("a negative offset", "CQ-VALID", overwrite_in_entry(queue(0, 1), 4, 0, big_endian_long(-4))),
        Defect("an entry that is there twice", "CQ-VALID", lambda root: duplicate_entry(root, queue(1, 0))),
        Defect(
            "a file that ends in zeros before its queue does",
            "CQ-VALID",
            lambda root: zero_last_entries(root, queue(1, 1)),
        ),
        Defect("entries that are missing at a queue's end", "CQ-COMPLETE", remove_last_entries(0, 2)),
    ],
    "files of queues": [
        Defect("a queue's file that is gone", "CQ-VALID", remove_file(queue(0, 1), named=queue(0, 2))),
        Defect("a queue that is gone", "CQ-COMPLETE", remove_queue),
    ],
    "a cut queue": [Defect("a queue's file of odd length", "CQ-VALID", truncate_file(queue(0, 0), 507))],
    "entries of the index": [
        Defect("a hash", "IDX", overwrite_in_index_file(0, entry_at(2), big_endian_int(12345))),
        Defect("a slot", "IDX", corrupt_slot(1)),
        Defect("the header's last offset", "IDX", overwrite_in_index_file(2, 24, big_endian_long(1 << 40))),
        Defect("the number of slots in use", "IDX", overwrite_in_index_file(3, 32, big_endian_int(1))),
    ],
    "more entries of the index": [
        Defect("the header's number of entries", "IDX", overwrite_in_index_file(0, 36, big_endian_int(1 << 20))),
        Defect("a time", "IDX", overwrite_in_index_file(1, entry_at(7) + 12, big_endian_int(99))),
        Defect("a link", "IDX", overwrite_in_index_file(2, entry_at(9) + 16, big_endian_int(40))),
        Defect("an offset that leads nowhere", "IDX", overwrite_in_index_file(3, entry_at(4) + 4, big_endian_long(7))),
    ],
    "files of the index": [
        Defect("a file without a time for a name", "IDX", create_path("index/notes.txt", b"by hand")),
        Defect("an index file that was cut", "IDX", truncate_index_file(1)),
        Defect("an entry that is zeros", "IDX", overwrite_in_index_file(0, entry_at(5), bytes(20))),
    ],
    "an index that is gone": [Defect("the whole directory", "IDX", remove_index)],
    "an index without files": [Defect("all its files", "IDX", remove_index_files)],
}
"""Defects in a stopped store, by kind of file."""

STRAYS: dict[str, Plant] = {
    "a queue's directory that is no number": create_path("consumequeue/T/one", None),
    "a file among the topics": create_path("consumequeue/notes.txt", b"by hand"),
    "a file among a topic's queues": create_path("consumequeue/T/notes.txt", b"by hand"),
    "a file in a queue": create_path("consumequeue/T/0/notes.txt", b"by hand"),
}
"""Foreign files, which the store ignores."""

UNCLEAN: dict[str, list[Defect]] = {
    "what no exit takes": [
        Defect("a bit of a body, in front of whole records", "LOG", overwrite_in_record(0, 2, 100, b"\xff")),
        Defect("a wrong entry that is young", "CQ-VALID", lambda root: corrupt_last_tag(root, 0)),
        Defect("a hole in front of entries", "CQ-VALID", overwrite_in_entry(queue(1, 0), 5, 0, bytes(20))),
        Defect("a record whose entry is that hole", "CQ-COMPLETE", lambda root: segment(0)),
    ]
}
"""Defects that count even in a crashed store with a checkpoint that covers no records."""


def apply_damage_explained_by_unclean_exit(root: Path) -> None:
    """Apply all damage that an unclean exit may do to a store with a checkpoint that covers no records."""
    mark_unclean(root)
    (root / "checkpoint").write_bytes(bytes(4096))
    append_half_record(root)
    remove_last_entries(0, 5)(root)
    add_entry_beyond_log_end(1)(root)
    index_file(root, -1).unlink()
