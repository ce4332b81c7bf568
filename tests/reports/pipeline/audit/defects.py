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


def edited(name: str, edit: Callable[[bytearray], None]) -> Plant:
    def plant(root: Path) -> str:
        raw = bytearray((root / name).read_bytes())
        edit(raw)
        (root / name).write_bytes(raw)
        return name

    return plant


def in_record(number: int, record: int, at: int, new: bytes) -> Plant:
    """Return a plant that overwrites bytes of a record."""

    def edit(raw: bytearray) -> None:
        start = starts_of(raw)[record] + at
        raw[start : start + len(new)] = new

    return edited(segment(number), edit)


def copied(number: int, source: int, target: int) -> Plant:
    """Return a plant that replaces a record by another one, but keeps the physical offset."""

    def edit(raw: bytearray) -> None:
        starts = starts_of(raw)
        record = raw[starts[source] : starts[source + 1]]
        assert len(record) == starts[target + 1] - starts[target]
        place = (number * LOG_BYTES + starts[target]).to_bytes(8, "big")
        raw[starts[target] : starts[target + 1]] = record[:28] + place + record[36:]

    return edited(segment(number), edit)


def in_entry(name: str, entry: int, at: int, new: bytes) -> Plant:
    """Return a plant that overwrites bytes of a queue entry."""

    def edit(raw: bytearray) -> None:
        raw[entry * 20 + at : entry * 20 + at + len(new)] = new

    return edited(name, edit)


def in_checkpoint(at: int, new: bytes) -> Plant:
    def edit(raw: bytearray) -> None:
        raw[at : at + len(new)] = new

    return edited("checkpoint", edit)


def exchanged(name: str, entry: int, other: int) -> Plant:
    def edit(raw: bytearray) -> None:
        one, two = (slice(number * 20, number * 20 + 20) for number in (entry, other))
        raw[one], raw[two] = raw[two], raw[one]

    return edited(name, edit)


def entries_gone(queue_id: int, count: int) -> Plant:
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


def torn_tail(root: Path) -> str:
    """Append the first half of a record."""
    name = last_segment(root)
    raw = bytearray((root / name).read_bytes())
    starts = starts_of(raw)
    half = (starts[1] - starts[0]) // 2
    record = raw[:28] + (int(name[-20:]) + starts[-1]).to_bytes(8, "big") + raw[36:half]
    raw[starts[-1] : starts[-1] + half] = record
    (root / name).write_bytes(raw)
    return name


def entry_beyond(queue_id: int) -> Plant:
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


def of_index(number: int, at: int, new: bytes) -> Plant:
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


def removed(name: str, *, named: str | None = None) -> Plant:
    def plant(root: Path) -> str:
        (root / name).unlink()
        return name if named is None else named

    return plant


def cut(name: str, size_bytes: int) -> Plant:
    def plant(root: Path) -> str:
        (root / name).write_bytes((root / name).read_bytes()[:size_bytes])
        return name

    return plant


def made(name: str, content: bytes | None) -> Plant:
    """Return a plant that creates a file or directory."""

    def plant(root: Path) -> str:
        if content is None:
            (root / name).mkdir(parents=True)
        else:
            (root / name).write_bytes(content)
        return name

    return plant


def queue_gone(root: Path) -> str:
    for path in (root / "consumequeue/T/1").iterdir():
        path.unlink()
    (root / "consumequeue/T/1").rmdir()
    return segment(0)


def index_gone(root: Path) -> str:
    for path in (root / "index").iterdir():
        path.unlink()
    (root / "index").rmdir()
    return "index"


def index_files_gone(root: Path) -> str:
    for path in (root / "index").iterdir():
        path.unlink()
    return segment(0)


def index_cut(number: int) -> Plant:
    def plant(root: Path) -> str:
        path = index_file(root, number)
        path.write_bytes(path.read_bytes()[:-20])
        return str(path.relative_to(root))

    return plant


def slot_wrong(number: int) -> Plant:
    def plant(root: Path) -> str:
        path = index_file(root, number)
        raw = bytearray(path.read_bytes())
        at = next(at for at in range(43, INDEX_ENTRIES_AT, 4) if raw[at])
        raw[at] ^= 1
        path.write_bytes(raw)
        return str(path.relative_to(root))

    return plant


def unclean(root: Path) -> None:
    """Make the store look as if it had crashed."""
    (root / "abort").touch()


def u64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def doubled(root: Path, name: str) -> str:
    raw = (root / name).read_bytes()
    return in_entry(name, 8, 0, raw[7 * 20 : 8 * 20])(root)


def zero_end(root: Path, name: str) -> str:
    return in_entry(name, 28, 0, bytes(40))(root)


def last_tag(root: Path, queue_id: int) -> str:
    path = sorted((root / f"consumequeue/T/{queue_id}").iterdir())[-1]
    end = len(path.read_bytes().rstrip(b"\0")) + 19
    return in_entry(str(path.relative_to(root)), end // 20 - 1, 12, u64(99))(root)


CLEAN: dict[str, list[Defect]] = {
    "records of a log": [
        Defect("a bit of a body", "LOG", in_record(0, 2, 100, b"\xff")),
        Defect("a record's length", "LOG", in_record(1, 3, 0, u32(1 << 30))),
        Defect("a record's magic", "LOG", in_record(2, 4, 4, u32(7))),
        Defect("damage behind the last record of a store that was stopped", "LOG", torn_tail),
        Defect("a checkpoint from the future", "CKPT", in_checkpoint(0, u64(1 << 60))),
    ],
    "more records of a log": [
        Defect("a record that is zeros", "LOG", in_record(0, 2, 0, bytes(300))),
        Defect("a record's own offset", "LOG", in_record(1, 3, 28, u64(5))),
        Defect("a body's length", "LOG", in_record(2, 4, 84, u32(-1))),
        Defect("a negative checkpoint", "CKPT", in_checkpoint(8, u64(-5))),
    ],
    "files of a log": [
        Defect("a segment that is gone", "LOG", removed(segment(1), named=segment(2))),
        Defect("a stray file beside the segments", "LOG", made("commitlog/notes.txt", b"by hand")),
        Defect("a short checkpoint", "CKPT", cut("checkpoint", 7)),
    ],
    "a cut log": [
        Defect("a segment that was cut", "LOG", cut(segment(1), 9000)),
        Defect("no checkpoint", "CKPT", removed("checkpoint")),
    ],
    "queue offsets": [
        Defect("a record's queueOffset", "QOFF", in_record(0, 3, 20, u64(77))),
        Defect("a record that is there twice", "QOFF", copied(1, 2, 6)),
    ],
    "entries of queues": [
        Defect("an entry's size", "CQ-VALID", in_entry(queue(0, 0), 1, 8, u32(12))),
        Defect("an entry's tag", "CQ-VALID", in_entry(queue(0, 1), 3, 12, u64(99))),
        Defect("an entry that leads elsewhere", "CQ-VALID", in_entry(queue(0, 2), 5, 0, u64(7))),
        Defect("a hole", "CQ-VALID", in_entry(queue(1, 0), 5, 0, bytes(20))),
        Defect("two entries exchanged", "CQ-VALID", exchanged(queue(1, 1), 7, 8)),
        Defect("an entry behind the log's end", "CQ-VALID", entry_beyond(1)),
    ],
    "more entries of queues": [
        Defect("a negative size", "CQ-VALID", in_entry(queue(0, 0), 4, 8, u32(-4))),
        Defect("a negative offset", "CQ-VALID", in_entry(queue(0, 1), 4, 0, u64(-4))),
        Defect("an entry that is there twice", "CQ-VALID", lambda root: doubled(root, queue(1, 0))),
        Defect("a file that ends in zeros before its queue does", "CQ-VALID", lambda root: zero_end(root, queue(1, 1))),
        Defect("entries that are missing at a queue's end", "CQ-COMPLETE", entries_gone(0, 2)),
    ],
    "files of queues": [
        Defect("a queue's file that is gone", "CQ-VALID", removed(queue(0, 1), named=queue(0, 2))),
        Defect("a queue that is gone", "CQ-COMPLETE", queue_gone),
    ],
    "a cut queue": [Defect("a queue's file of odd length", "CQ-VALID", cut(queue(0, 0), 507))],
    "entries of the index": [
        Defect("a hash", "IDX", of_index(0, entry_at(2), u32(12345))),
        Defect("a slot", "IDX", slot_wrong(1)),
        Defect("the header's last offset", "IDX", of_index(2, 24, u64(1 << 40))),
        Defect("the number of slots in use", "IDX", of_index(3, 32, u32(1))),
    ],
    "more entries of the index": [
        Defect("the header's number of entries", "IDX", of_index(0, 36, u32(1 << 20))),
        Defect("a time", "IDX", of_index(1, entry_at(7) + 12, u32(99))),
        Defect("a link", "IDX", of_index(2, entry_at(9) + 16, u32(40))),
        Defect("an offset that leads nowhere", "IDX", of_index(3, entry_at(4) + 4, u64(7))),
    ],
    "files of the index": [
        Defect("a file without a time for a name", "IDX", made("index/notes.txt", b"by hand")),
        Defect("an index file that was cut", "IDX", index_cut(1)),
        Defect("an entry that is zeros", "IDX", of_index(0, entry_at(5), bytes(20))),
    ],
    "an index that is gone": [Defect("the whole directory", "IDX", index_gone)],
    "an index without files": [Defect("all its files", "IDX", index_files_gone)],
}
"""Defects in a stopped store, by kind of file."""

STRAYS: dict[str, Plant] = {
    "a queue's directory that is no number": made("consumequeue/T/one", None),
    "a file among the topics": made("consumequeue/notes.txt", b"by hand"),
    "a file among a topic's queues": made("consumequeue/T/notes.txt", b"by hand"),
    "a file in a queue": made("consumequeue/T/0/notes.txt", b"by hand"),
}
"""Foreign files, which the store ignores."""

UNCLEAN: dict[str, list[Defect]] = {
    "what no exit takes": [
        Defect("a bit of a body, in front of whole records", "LOG", in_record(0, 2, 100, b"\xff")),
        Defect("a wrong entry that is young", "CQ-VALID", lambda root: last_tag(root, 0)),
        Defect("a hole in front of entries", "CQ-VALID", in_entry(queue(1, 0), 5, 0, bytes(20))),
        Defect("a record whose entry is that hole", "CQ-COMPLETE", lambda root: segment(0)),
    ]
}
"""Defects that count even in a crashed store with a checkpoint that covers no records."""


def explained(root: Path) -> None:
    """Apply all damage that an unclean exit may do to a store with a checkpoint that covers no records."""
    unclean(root)
    (root / "checkpoint").write_bytes(bytes(4096))
    torn_tail(root)
    entries_gone(0, 5)(root)
    entry_beyond(1)(root)
    index_file(root, -1).unlink()
