"""Small stores as inputs: made on a simulated machine, with the content, name, length and path of files mutated."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from ...faults.disk.disk import Disk
from ...faults.disk.image import Image
from ...sim.choices import Choices
from ...sim.errors import LivenessError, TaskFailedError
from ...sim.kernel import Kernel
from ...sim.policies.random_walk import RoundRobin
from ...store.config import StoreConfig
from ...store.formats.messages import Message
from ...store.message_store import MessageStore
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.world import World
from ..claims.machine import CONFIG, ROOT, world_of
from .container import HAS_EXTENSIONS, TRUSTS_CHECKPOINT, DirectoryContent, directory_of_image, unpack_directory
from .material import KEYS, TAGS, TOPICS, random_body
from .mutation import Draw, mutate_bytes
from .shape import INDEX_SLOTS, correct_records, shape_of_file
from .target import TargetViolation

LOG_FILE_BYTES, QUEUE_FILE_BYTES, EXT_FILE_BYTES = 2048, 200, 512
INDEX_ENTRIES = 12
STORES = 24
_DELAY_LEVELS = "1s 3s 20s"
_MESSAGES_MAX = 24
_BODY_BYTES = (0, 5, 64, 300, 900)


@cache
def settings_of(settings: int) -> StoreConfig:
    """settings: the settings byte of a packed directory."""
    return StoreConfig(
        ROOT,
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
        mapped_file_size_consume_queue_ext=EXT_FILE_BYTES,
        enable_consume_queue_ext=bool(settings & HAS_EXTENSIONS),
        recover_whole_log=not settings & TRUSTS_CHECKPOINT,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES,
        message_delay_level=_DELAY_LEVELS,
        disk_space_warning_level_ratio=1.0,
    )


def draw_store(draw: Draw) -> DirectoryContent:
    return _store_directory(draw.randbelow(STORES))


@cache
def _store_directory(number: int) -> DirectoryContent:
    assert 0 <= number < STORES, number
    draw = Draw(f"store {number}")
    settings = number % 4
    _, image = run_on_image(None, lambda world: _use_store(world, settings, draw))
    return directory_of_image(image, ROOT, settings)


def _use_store(world: World, settings: int, draw: Draw) -> None:
    """Put messages. Then stop the store, or return without a stop before a power cut."""
    world.files.make_directories(ROOT)
    store = MessageStore(world, settings_of(settings))
    offsets = ConsumerOffsetManager(world, CONFIG)
    store.load()
    store.start()
    for number in range(draw.randint(1, _MESSAGES_MAX)):
        store.put_message(_draw_message(draw, number))
        offsets.commit_offset("billing", draw.choice(TOPICS), 0, number)
        if draw.chance(0.1):
            world.tasks.sleep(draw.randint(1, 4000))
    offsets.persist()
    if draw.chance(0.5):
        store.shutdown()
    else:
        world.tasks.sleep(draw.choice((0, 1, 1100, 11_000)))


def _draw_message(draw: Draw, number: int) -> Message:
    return Message.create(
        draw.choice(TOPICS[:2] + TOPICS[4:]),
        random_body(draw.choice(_BODY_BYTES)),
        queue_id=draw.randbelow(2),
        tags=draw.choice(("", *TAGS)),
        keys=draw.choice(("", *KEYS)),
        properties={"DELAY": "1"} if draw.chance(0.1) else {"n": str(number)},
    )


T = TypeVar("T")

_STEP_LIMIT = 200_000
_TIME_LIMIT_NS = 600 * 10**9
_NEVER_INTERRUPTED = 1 << 60


def run_on_image(image: Image | None, body: Callable[[World], T]) -> tuple[T, Image]:
    """Run `body` on a machine with an image on its disk; return its result and the final image.

    Raises the errors of `body` and of its tasks, and TargetViolation if `body` does not end.
    """
    with Kernel(RoundRobin(_NEVER_INTERRUPTED), step_limit=_STEP_LIMIT) as kernel:
        disk = Disk(kernel, Choices("").stream("disk"), image=image)
        machine = kernel.create_machine("machine")
        world = world_of(machine, disk)
        try:
            value = kernel.run(machine, lambda: body(world), time_limit_ns=_TIME_LIMIT_NS)
        except TaskFailedError as failed:
            if failed.__cause__ is None:
                raise
            raise failed.__cause__ from None
        except LivenessError as stuck:
            raise TargetViolation("no-end", "an end", str(stuck)[:500]) from stuck
        return value, disk.image_after_power_off()


CHANGES_MAX = 3
_FILE_BYTES_MAX = 4 * LOG_FILE_BYTES
_FOREIGN = (
    ("abort", b""),
    ("photographs/sea.jpeg", b"\xff\xd8"),
    ("commitlog/readme", b"?"),
    ("commitlog/00000000000000000001", b"?"),
    ("consumequeue/Orders/x", None),
    ("consumequeue/Orders/7/00000000000000000020", b""),
    ("consumequeue/Orders/18446744073709551616", None),
    ("consumequeue/" + "t" * 200 + "/0", None),
    ("index/20200931000000000", b""),
    ("config/delayOffset.json", b"{}"),
    ("config/consumerOffset.json.bak", b"{"),
)
"""Paths that are no part of a store, or have the wrong type or name."""
_BASES = (
    *(0, QUEUE_FILE_BYTES),
    *(LOG_FILE_BYTES, 2 * LOG_FILE_BYTES, 20 * LOG_FILE_BYTES, (1 << 63) - LOG_FILE_BYTES),
)

Entries = dict[str, bytes | None]


def mutated_directory(directory: DirectoryContent, draw: Draw, others: Sequence[bytes]) -> DirectoryContent:
    """Return a mutated copy of a packed directory. Mutations may copy files from other packed directories."""
    entries, settings = dict(directory.entries), directory.settings
    changes = 1
    while changes < CHANGES_MAX and draw.chance(0.4):
        changes += 1
    for _ in range(changes):
        if draw.chance(0.75):
            _change_content(entries, draw)
        elif draw.chance(0.9):
            draw.choice(_NAME_CHANGES)(entries, draw, others)
        else:
            settings ^= draw.choice((TRUSTS_CHECKPOINT, HAS_EXTENSIONS))
    return DirectoryContent(settings, dict(sorted(entries.items())))


def _change_content(entries: Entries, draw: Draw) -> None:
    """Mutate one file. The kind of file is chosen first, so that kinds with few files are not rare."""
    kinds: dict[str, list[str]] = {}
    for path, content in entries.items():
        if content:
            kinds.setdefault(path.partition("/")[0], []).append(path)
    if not kinds:
        return
    kind = "commitlog" if "commitlog" in kinds and draw.chance(0.4) else draw.choice(list(kinds))
    path = draw.choice(kinds[kind])
    before = entries[path] or b""
    data = mutate_bytes(before, shape_of_file(path, before), draw, (), _FILE_BYTES_MAX)
    if kind != "config" and draw.chance(0.9):  # keep the length, because few faults change the length
        data = data[: len(before)].ljust(len(before), b"\0")
    if kind == "commitlog" and draw.chance(0.5):
        correct_records(data, base_offset_of(path))
    entries[path] = bytes(data)


def base_offset_of(path: str) -> int:
    """Return the log offset in a segment's name, 0 for other files."""
    name = path.rpartition("/")[2]
    is_base = len(name) == 20 and name.isascii() and name.isdecimal() and int(name) < 1 << 63
    return int(name) if is_base else 0


# -- changes of names ------------------------------------------------------------------------------


def _pick_file(entries: Entries, draw: Draw) -> str | None:
    files = [path for path, content in entries.items() if content is not None]
    return draw.choice(files) if files else None


def _remove_file(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path = _pick_file(entries, draw)
    if path is not None:
        del entries[path]


def _resize_file(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path = _pick_file(entries, draw)
    if path is not None:
        content = entries[path] or b""
        before = len(content)
        size_bytes = draw.choice((0, 1, before // 2, before - 1, before + 1, 2 * before))
        entries[path] = content[: max(size_bytes, 0)].ljust(size_bytes, b"\0")


def _zero_range(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path = _pick_file(entries, draw)
    if path is not None:
        entries[path] = bytes(len(entries[path] or b""))


def _move_file(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path = _pick_file(entries, draw)
    if path is not None and "/" in path:
        target = f"{path.rpartition('/')[0]}/{draw.choice(_BASES):020d}"
        content = entries[path]
        if draw.chance(0.5):
            del entries[path]
        entries[target] = content


def _exchange_files(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    one, other = _pick_file(entries, draw), _pick_file(entries, draw)
    if one is not None and other is not None:
        entries[one], entries[other] = entries[other], entries[one]


def _make_directory(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path = _pick_file(entries, draw)
    if path is not None:
        entries[path] = None


def _add_foreign_file(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    path, content = draw.choice(_FOREIGN)
    entries[path] = content


def _copy_from_other(entries: Entries, draw: Draw, others: Sequence[bytes]) -> None:
    other = unpack_directory(draw.choice(others)) if others else None
    path = None if other is None else _pick_file(dict(other.entries), draw)
    if other is not None and path is not None:
        entries[path] = other.entries[path]


_NAME_CHANGES = (
    _remove_file,
    _resize_file,
    _zero_range,
    _move_file,
    _exchange_files,
    _make_directory,
    _add_foreign_file,
    _copy_from_other,
)
