"""The sizes and delay levels a store directory was made with, read from its own files.

No file names them, but every segment has its queue's one size, and every delayed message waits in the queue of its
level with its delivery time beside it. Where too little is there to tell, RocketMQ's defaults count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from .config import GIB, MIB, StoreConfig
from .errors import CorruptFileError
from .formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from .formats.delay_level import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, parse_delay_levels
from .formats.message import RECORD_BYTES_MIN, decode_record
from .segments.segment import segment_name
from .world import Files, FileStatus

_MAX_MESSAGE_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True)
class Geometry:
    """What was told about a store, None where nothing was."""

    commit_log_bytes: int | None = None
    consume_queue_bytes: int | None = None
    max_message_bytes: int | None = None
    delay_levels: str | None = None

    @classmethod
    def of_broker_conf(cls, text: str) -> "Geometry":
        """Read what a RocketMQ broker.conf (`name=value` lines) says. ValueError names a value that is none."""
        values = {}
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            if equals and not name.lstrip().startswith("#"):
                values[name.strip().replace("maped", "mapped")] = value.strip()
        parse_delay_levels(values.get("messageDelayLevel", ""))
        return cls(
            _size_of(values, "mappedFileSizeCommitLog"),
            _size_of(values, "mappedFileSizeConsumeQueue"),
            _size_of(values, "maxMessageSize"),
            values.get("messageDelayLevel"),
        )


def _size_of(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise ValueError(f"{name}: expected a number of bytes, found {text!r}")
    return int(text)


def is_segment_name(name: str) -> bool:
    """Return whether a file can be a segment, by its name."""
    return len(name) == 20 and name.isascii() and name.isdecimal()


def config_of_directory(files: Files, root: str, told: Geometry) -> StoreConfig:
    """Return the settings to open a store directory with: what was told, else what its files say.

    A size is the one most segments have, so that a single cut file is the odd one out, not all the others.
    Raises CorruptFileError if root is no store directory, OSError if it cannot be read.
    """
    require_store(files, root)
    log_bytes = told.commit_log_bytes or _commit_log_bytes(files, root) or GIB
    config = StoreConfig(
        root,
        mapped_file_size_commit_log=log_bytes,
        max_message_size=told.max_message_bytes or max(1, min(_MAX_MESSAGE_BYTES, log_bytes // 2)),
    )
    queue_bytes = told.consume_queue_bytes or _consume_queue_bytes(files, root)
    if queue_bytes:
        config = replace(config, mapped_file_size_consume_queue=queue_bytes)
    return replace(config, message_delay_level=told.delay_levels or _delay_levels(files, config))


def require_store(files: Files, root: str) -> None:
    """Raise CorruptFileError unless root is a directory with a `commitlog` directory in it."""
    status = files.status(root)
    if status is None or not status.is_directory:
        raise CorruptFileError(root, 0, "store", "a directory", "nothing" if status is None else "a file")
    status = files.status(f"{root}/commitlog")
    if status is None or not status.is_directory:
        found = "nothing" if status is None else "a file"
        raise CorruptFileError(root, 0, "commitlog", "a directory of that name: every store has one", found)


def _commit_log_bytes(files: Files, root: str) -> int | None:
    return _most_common_size(_statuses_in(files, f"{root}/commitlog"))


def _consume_queue_bytes(files: Files, root: str) -> int | None:
    return _most_common_size(_queue_statuses(files, root))


def segment_statuses(files: Files, root: str) -> dict[str, FileStatus]:
    """Return what the directories know of every segment of log and queues, by path."""
    return dict(_statuses_in(files, f"{root}/commitlog")) | dict(_queue_statuses(files, root))


def _most_common_size(statuses: Iterable[tuple[str, FileStatus]]) -> int | None:
    """Return the length most files have, the longer one of two equally common; None without bytes."""
    seen = Counter(status.size_bytes for _, status in statuses if status.size_bytes)
    return max(((count, size_bytes) for size_bytes, count in seen.items()), default=(0, None))[1]


def _queue_statuses(files: Files, root: str) -> Iterator[tuple[str, FileStatus]]:
    for topic in _directories(files, f"{root}/consumequeue"):
        for queue in _directories(files, topic):
            yield from _statuses_in(files, queue)


def _statuses_in(files: Files, directory: str) -> Iterator[tuple[str, FileStatus]]:
    """Yield path and status of every file in a directory that can be a segment by its name."""
    for name in files.list_directory(directory):
        path = f"{directory}/{name}"
        status = files.status(path)
        if status is not None and not status.is_directory and is_segment_name(name):
            yield path, status


def _directories(files: Files, path: str) -> list[str]:
    status = files.status(path)
    if status is None or not status.is_directory:
        return []
    below = [f"{path}/{name}" for name in files.list_directory(path)]
    return [name for name in below if (found := files.status(name)) is not None and found.is_directory]


def _delay_levels(files: Files, config: StoreConfig) -> str:
    """Return the levels that delayed messages were stored with, the defaults for levels without any."""
    known = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    seen: dict[int, int] = {}
    for path in _directories(files, f"{config.consume_queue_directory}/{SCHEDULE_TOPIC}"):
        name = path.rpartition("/")[2]
        delay_ms = _delay_ms_of(files, config, path)
        if delay_ms is not None and name.isascii() and name.isdecimal():
            seen[int(name) + 1] = delay_ms
    if all(known.get(level) == delay_ms for level, delay_ms in seen.items()):
        return DEFAULT_DELAY_LEVELS
    levels = {level: seen.get(level, known.get(level, 0)) for level in range(1, max(seen) + 1)}
    return " ".join(f"{delay_ms // 1000}s" for delay_ms in levels.values())


def _delay_ms_of(files: Files, config: StoreConfig, queue: str) -> int | None:
    """Return how long after its store time the first message of a level's queue is due, None if that is no delay."""
    for path, status in _statuses_in(files, queue):
        view = files.map(path, status.size_bytes).view(0, status.size_bytes)
        for at in range(0, len(view) - ENTRY_BYTES + 1, ENTRY_BYTES):
            entry = decode_entry(view, at)
            if is_valid(entry):
                stored_ms = _store_timestamp_ms(files, config, entry.physical_offset)
                delay_ms = -1 if stored_ms is None else entry.tags_code - stored_ms
                if delay_ms >= 0 and delay_ms % 1000 == 0:
                    return delay_ms
                return None
    return None


def _store_timestamp_ms(files: Files, config: StoreConfig, physical_offset: int) -> int | None:
    size_bytes = config.mapped_file_size_commit_log
    at = physical_offset % size_bytes
    path = f"{config.commit_log_directory}/{segment_name(physical_offset - at)}"
    status = files.status(path)
    if status is None or status.is_directory or status.size_bytes < at + RECORD_BYTES_MIN:
        return None
    try:
        return decode_record(
            files.map(path, status.size_bytes).view(0, status.size_bytes), at, file=path
        ).store_timestamp_ms
    except CorruptFileError:
        return None
