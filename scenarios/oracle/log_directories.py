"""Log directories: where a store with several may create segments (POS).

Segment n is in number (n mod w) of the w sorted directories that are not read-only. A segment that exists when its
directory becomes read-only stays there. On a limited disk, a directory that is too full is left out, and may have been
too full only when the segment was created; such a segment may be in any directory that is not read-only. If only one
directory has a small disk, segments are created in it or in the others, but never while it is full. Source: RocketMQ
MultiPathMappedFileQueue.
"""

from collections.abc import Iterator, Sequence

from ...faults.disk.disk import Disk
from ...faults.kinds import FaultKind
from ...store.config import StoreConfig
from .evidence import Violation, record_tried


class SegmentPlaces:
    """The directories of all segments. `check_new_segments` is called before each start, and at the end."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        """Names of segments."""

    def check_new_segments(
        self, disk: Disk, config: StoreConfig, *, is_limited: bool, full: str | None = None
    ) -> Iterator[Violation]:
        """POS: yield each segment that was created in a wrong directory.

        config: the last start's. is_limited: whether the disk had a limited capacity during traffic. full: the
        directory with a small disk.
        """
        paths = [path for path in config.store_path_commit_log.split(",") if path]
        if len(paths) < 2:
            return
        writable = _writable_paths(config)
        turns = [writable, [path for path in writable if path != full] or writable]
        found: dict[str, list[str]] = {}
        for directory, name in (path.rpartition("/")[::2] for path in disk.paths):
            if directory in paths and name.isdigit():
                found.setdefault(name, []).append(directory)
        for name, at in sorted(found.items()):
            number = int(name) // config.mapped_file_size_commit_log
            wanted = [paths[number % len(paths)] for paths in turns]
            # Before all known segments there can be none that is new, only one whose removal a power cut has undone.
            if name not in self._known and name > min(self._known, default=""):
                record_tried("POS")
                # A segment that was made twice is in two directories until the next load.
                if not {*wanted, *(writable if is_limited else ())} & {*at}:
                    summary, expected = f"segment {name} is in a wrong directory", " or ".join(dict.fromkeys(wanted))
                    yield Violation("POS", summary, at[0], 0, "path", expected, at[0])
        self._known = set(found)


def check_full_directory(disk: Disk, config: StoreConfig, full: str | None) -> Iterator[Violation]:
    """POS: yield a directory with a small disk if the store has tried to create a segment in it while it was full.

    The capacity is a multiple of the segment size, so a directory is full before a segment does not fit. If no other
    directory is writable or the usage is unknown, the store must try.
    """
    if full is None or not set(_writable_paths(config)) - {full} or disk.injected[FaultKind.FAILED_SPACE_QUERY]:
        return
    record_tried("POS")
    if attempts := disk.injected[FaultKind.DISK_FULL]:
        summary = "segments are created on a full disk although another log directory has room"
        yield Violation("POS", summary, full, 0, "attempts", "0", str(attempts))


def _writable_paths(config: StoreConfig) -> Sequence[str]:
    read_only = config.read_only_commit_log_store_paths.split(",")
    return sorted(path for path in config.store_path_commit_log.split(",") if path and path not in read_only)
