"""Geometry of a store directory: derives sizes and delay levels from its files.

No file contains these settings, but all segments of a queue have the same size, the queue entry of a delayed message
contains the delivery time, and the contents of an index file show its number of slots. All other settings have
RocketMQ's defaults.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..config import GIB, MIB, ConfigError, StoreConfig
from ..errors import CorruptFileError
from ..formats.consume_queue import ENTRY_BYTES as QUEUE_ENTRY_BYTES
from ..formats.consume_queue import decode_entry, is_valid
from ..formats.delay_level import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, parse_delay_levels
from ..formats.index import (
    ENTRY_BYTES,
    SLOT_BYTES,
    entries_position,
    index_file_bytes,
    index_names_in_order,
    parse_index_file_name,
    slots_of,
)
from ..formats.light_queues import LIGHT_PREFIX
from ..formats.message import BLANK_BYTES, RECORD_BYTES_MIN, decode_record
from ..log.segment import is_segment_name
from ..log.segment_queue import SegmentDirectories, file_name_of
from ..settings.broker_conf import read_broker_conf
from ..world import Files, FileStatus
from .verify_files import RawSegment

_ENTRIES_MIN = 2
_BYTES_MIN = index_file_bytes(1, _ENTRIES_MIN)
_BYTES_MAX = 0x7FFFFFFF  # Java cannot map longer files: the size of a MappedByteBuffer is an int

_MAX_MESSAGE_BYTES = 4 * MIB
_EXT_BYTES_MIN = 64
"""Size of the shortest extension file that a store creates."""


def index_geometry(files: Files, config: StoreConfig, slots: int | None, entries: int | None) -> tuple[int, int]:
    """Return the numbers of slots and entries of an index file.

    The oldest suitable index file determines an unknown number; without such a file, `config` does. Raises OSError for
    an unreadable file.
    """
    if slots is None or entries is None:
        for path, size_bytes in _index_files(files, config.index_directory):
            found = _slots_and_entries(files, config, path, size_bytes, slots, entries)
            if found is not None:
                return found
    return slots or config.max_hash_slot_num, entries or config.max_index_num


def _index_files(files: Files, directory: str) -> Iterator[tuple[str, int]]:
    """Yield possible index files with their lengths, oldest first."""
    status = files.status(directory)
    if status is None or not status.is_directory:
        return
    for name in index_names_in_order(files.list_directory(directory)):
        found = files.status(f"{directory}/{name}")
        if parse_index_file_name(name) is None or found is None or found.is_directory:
            continue
        if _BYTES_MIN <= found.size_bytes <= _BYTES_MAX:
            yield f"{directory}/{name}", found.size_bytes


def _slots_and_entries(
    files: Files, config: StoreConfig, path: str, size_bytes: int, slots: int | None, entries: int | None
) -> tuple[int, int] | None:
    """Return both numbers, or None if the file does not determine them."""
    assert slots is None or entries is None, (slots, entries)
    if slots is None and entries is not None:
        slots, odd_bytes = divmod(size_bytes - index_file_bytes(0, entries), SLOT_BYTES)
        return (slots, entries) if slots >= 1 and not odd_bytes else None
    if slots is None:
        if size_bytes == index_file_bytes(config.max_hash_slot_num, config.max_index_num):
            return config.max_hash_slot_num, config.max_index_num
        slots = slots_of(files.map(path, size_bytes).view(0, size_bytes))
    if slots is None:
        return None
    entries, odd_bytes = divmod(size_bytes - entries_position(slots), ENTRY_BYTES)
    return (slots, entries) if entries >= _ENTRIES_MIN and not odd_bytes else None


@dataclass(frozen=True, slots=True)
class Geometry:
    """Settings of a store. None means that the setting is unknown."""

    commit_log_bytes: int | None = None
    consume_queue_bytes: int | None = None
    max_message_bytes: int | None = None
    delay_levels: str | None = None
    commit_log_paths: str = ""
    """Directories of the log, separated by `,`.

    Ignored if all these directories are missing, for example because the store is from another machine.
    """
    read_only_commit_log_paths: str = ""
    consume_queue_ext_bytes: int | None = None
    hash_slots: int | None = None
    index_entries: int | None = None
    has_index: bool | None = None
    multi_dispatch: bool = False
    """Whether messages are in light queues. A queue directory with the prefix %LMQ% also implies this."""
    lmq: bool | None = None

    @classmethod
    def of_broker_conf(cls, text: str) -> "Geometry":
        """Parse a broker.conf. Raises ConfigError with key and line."""
        conf = read_broker_conf(text, "/")

        def setting_of(name: str) -> Any:
            return getattr(conf.store, name) if name in conf.lines else None

        return cls(
            setting_of("mapped_file_size_commit_log"),
            setting_of("mapped_file_size_consume_queue"),
            setting_of("max_message_size"),
            setting_of("message_delay_level"),
            conf.store.store_path_commit_log,
            conf.store.read_only_commit_log_store_paths,
            setting_of("mapped_file_size_consume_queue_ext"),
            setting_of("max_hash_slot_num"),
            setting_of("max_index_num"),
            setting_of("message_index_enable"),
            conf.store.enable_multi_dispatch,
            setting_of("enable_lmq"),
        )


def geometry_fields(config: StoreConfig) -> dict[str, Any]:
    return {
        "mappedFileSizeCommitLog": config.mapped_file_size_commit_log,
        "mappedFileSizeConsumeQueue": config.mapped_file_size_consume_queue,
        "messageDelayLevel": config.message_delay_level,
        "maxHashSlotNum": config.max_hash_slot_num,
        "maxIndexNum": config.max_index_num,
        "enableConsumeQueueExt": config.enable_consume_queue_ext,
    }


def config_of_directory(files: Files, root: str, geometry: Geometry) -> StoreConfig:
    """Return the settings of a store directory: from `geometry`, else derived from the files.

    Raises CorruptFileError if `root` is not a store directory or no settings fit, and OSError for unreadable files.
    """
    try:
        return _config_of_directory(files, root, geometry)
    except ConfigError as error:
        raise CorruptFileError(root, 0, error.name, error.expected, error.found) from error


def _config_of_directory(files: Files, root: str, geometry: Geometry) -> StoreConfig:
    paths = log_paths(files, root, geometry)
    require_store(files, root, paths)
    log_bytes = geometry.commit_log_bytes or _most_common_size(log_statuses(files, paths)) or GIB
    config = replace(
        paths,
        mapped_file_size_commit_log=log_bytes,
        max_message_size=geometry.max_message_bytes or max(1, min(_MAX_MESSAGE_BYTES, log_bytes // 2)),
    )
    queue_bytes = geometry.consume_queue_bytes or _most_common_size(_queue_statuses(files, root))
    if queue_bytes:
        config = replace(config, mapped_file_size_consume_queue=queue_bytes)
    ext_bytes = _most_common_size(_queue_statuses(files, root, "consumequeue_ext"))
    if ext_bytes and ext_bytes >= _EXT_BYTES_MIN:
        ext_bytes = geometry.consume_queue_ext_bytes or ext_bytes
        config = replace(config, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=ext_bytes)
    topics = _list_subdirectories(files, config.consume_queue_directory)
    has_light = any(file_name_of(topic).startswith(LIGHT_PREFIX) for topic in topics)
    config = replace(
        config,
        enable_multi_dispatch=geometry.multi_dispatch or has_light,
        enable_lmq=has_light if geometry.lmq is None else geometry.lmq,
    )
    slots, entries = index_geometry(files, config, geometry.hash_slots, geometry.index_entries)
    return replace(
        config,
        max_hash_slot_num=slots,
        max_index_num=entries,
        message_index_enable=geometry.has_index is not False,
        message_delay_level=geometry.delay_levels or _derived_delay_levels(files, config),
    )


def log_paths(files: Files, root: str, geometry: Geometry) -> StoreConfig:
    """Return settings with the log directories of `geometry` if one exists, else with the default."""
    elsewhere = StoreConfig(
        root,
        store_path_commit_log=geometry.commit_log_paths,
        read_only_commit_log_store_paths=geometry.read_only_commit_log_paths,
    )
    directories = SegmentDirectories.of_commit_log(files, elsewhere).all
    exists = any(files.status(directory) is not None for directory in directories)
    return elsewhere if exists else StoreConfig(root)


def require_store(files: Files, root: str, paths: StoreConfig) -> None:
    """Raise CorruptFileError if `root` is not a directory, or `commitlog` is missing and the log is not elsewhere."""
    status = files.status(root)
    if status is None or not status.is_directory:
        raise CorruptFileError(root, 0, "store", "a directory", "nothing" if status is None else "a file")
    if paths != StoreConfig(root):
        return
    status = files.status(f"{root}/commitlog")
    if status is None or not status.is_directory:
        found = "nothing" if status is None else "a file"
        raise CorruptFileError(root, 0, "commitlog", "a directory, which every store has", found)


def segment_statuses(files: Files, config: StoreConfig) -> dict[str, FileStatus]:
    """Return the status of each segment of log and queues by path, ordered by offset."""
    return dict(log_statuses(files, config)) | dict(_queue_statuses(files, config.store_path_root_dir))


def log_statuses(files: Files, config: StoreConfig) -> Iterator[tuple[str, FileStatus]]:
    """Yield path and status of the log's segments, ordered by offset."""
    return _segments_among(files, SegmentDirectories.of_commit_log(files, config).paths())


def _most_common_size(statuses: Iterable[tuple[str, FileStatus]]) -> int | None:
    """Return the most common size of possible segments. In a tie the largest size wins."""
    seen = Counter(status.size_bytes for _, status in statuses if BLANK_BYTES <= status.size_bytes <= _BYTES_MAX)
    return max(((count, size_bytes) for size_bytes, count in seen.items()), default=(0, None))[1]


def _queue_statuses(files: Files, root: str, directory: str = "consumequeue") -> Iterator[tuple[str, FileStatus]]:
    for topic in _list_subdirectories(files, f"{root}/{directory}"):
        for queue in _list_subdirectories(files, topic):
            yield from _file_statuses_in(files, queue)


def _file_statuses_in(files: Files, directory: str) -> Iterator[tuple[str, FileStatus]]:
    return _segments_among(files, [f"{directory}/{name}" for name in files.list_directory(directory)])


def _segments_among(files: Files, paths: Iterable[str]) -> Iterator[tuple[str, FileStatus]]:
    for path in paths:
        status = files.status(path)
        if status is not None and not status.is_directory and is_segment_name(file_name_of(path)):
            yield path, status


def _list_subdirectories(files: Files, path: str) -> list[str]:
    status = files.status(path)
    if status is None or not status.is_directory:
        return []
    below = [f"{path}/{name}" for name in files.list_directory(path)]
    return [name for name in below if (found := files.status(name)) is not None and found.is_directory]


def _derived_delay_levels(files: Files, config: StoreConfig) -> str:
    """Derive delays from messages. A level without messages has RocketMQ's default."""
    known = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    seen: dict[int, int] = {}
    for path in _list_subdirectories(files, f"{config.consume_queue_directory}/{SCHEDULE_TOPIC}"):
        name = path.rpartition("/")[2]
        delay_ms = _delay_ms_of(files, config, path)
        if delay_ms is not None and name.isascii() and name.isdecimal():
            seen[int(name) + 1] = delay_ms
    if all(known.get(level) == delay_ms for level, delay_ms in seen.items()):
        return DEFAULT_DELAY_LEVELS
    levels = {level: seen.get(level, known.get(level, 0)) for level in range(1, max(seen) + 1)}
    return " ".join(f"{delay_ms // 1000}s" for delay_ms in levels.values())


def _delay_ms_of(files: Files, config: StoreConfig, queue: str) -> int | None:
    """Return the delay of a queue's first message, or None if the delay is invalid."""
    for path, status in _file_statuses_in(files, queue):
        size_bytes = min(status.size_bytes, config.mapped_file_size_consume_queue)
        file = RawSegment(path, 0, files.map(path, size_bytes))
        for at in range(0, file.size_bytes - QUEUE_ENTRY_BYTES + 1, QUEUE_ENTRY_BYTES):
            entry = decode_entry(file.bytes_at(at, QUEUE_ENTRY_BYTES), 0)
            if is_valid(entry):
                stored_ms = _read_store_timestamp_ms(files, config, entry.physical_offset)
                delay_ms = -1 if stored_ms is None else entry.tags_code - stored_ms
                if delay_ms >= 0 and delay_ms % 1000 == 0:
                    return delay_ms
                return None
    return None


def _read_store_timestamp_ms(files: Files, config: StoreConfig, physical_offset: int) -> int | None:
    size_bytes = config.mapped_file_size_commit_log
    at = physical_offset % size_bytes
    path = SegmentDirectories.of_commit_log(files, config).path(physical_offset - at, size_bytes)
    status = files.status(path)
    if status is None or status.is_directory or status.size_bytes < at + RECORD_BYTES_MIN:
        return None
    try:
        file = files.map(path, status.size_bytes)
        size_bytes = int.from_bytes(file.view(at, at + 4), "big", signed=True)
        if not RECORD_BYTES_MIN <= size_bytes <= status.size_bytes - at:
            return None
        return decode_record(file.view(at, at + size_bytes), 0, file=path, file_offset=at).store_timestamp_ms
    except CorruptFileError:
        return None
