"""Small stores: make store directories on a simulated machine."""

from collections.abc import Callable
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
from .container import HAS_EXTENSIONS, TRUSTS_CHECKPOINT, DirectoryContent, directory_of_image
from .material import KEYS, TAGS, TOPICS, random_body
from .mutation import Draw
from .shape import INDEX_SLOTS
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
    return _make_directory(draw.randbelow(STORES))


@cache
def _make_directory(number: int) -> DirectoryContent:
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
