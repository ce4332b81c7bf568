"""Log directories: where a store with several may create segments (POS).

Segment n is in number (n mod w) of the w sorted directories that are not read-only. A segment that exists when its
directory becomes read-only stays there. On a limited disk, a directory that is too full is left out, and may have been
too full only when the segment was created; such a segment may be in any directory that is not read-only. Source:
RocketMQ MultiPathMappedFileQueue.
"""

from collections.abc import Iterator

from ...faults.disk.disk import Disk
from ...store.config import StoreConfig
from .evidence import Violation, record_tried


class SegmentPlaces:
    """The directories of all segments. `check_new_segments` is called before each start, and at the end."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        """Name of a segment -> its directory."""

    def check_new_segments(self, disk: Disk, config: StoreConfig, *, is_limited: bool) -> Iterator[Violation]:
        """POS: yield each segment that was created in a wrong directory.

        config: that of the last start. is_limited: whether the disk had a limited capacity during traffic.
        """
        read_only = set(filter(None, config.read_only_commit_log_store_paths.split(",")))
        paths = [path for path in config.store_path_commit_log.split(",") if path]
        if len(paths) < 2:
            return
        writable = sorted(path for path in paths if path not in read_only)
        places = [path.rpartition("/")[::2] for path in disk.paths]
        found = {name: directory for directory, name in places if directory in paths and name.isdigit()}
        for name, path in sorted(found.items()):
            wanted = writable[int(name) // config.mapped_file_size_commit_log % len(writable)]
            if name not in self._known:
                record_tried("POS")
                if path != wanted and not (is_limited and path in writable):
                    yield Violation("POS", f"segment {name} is in a wrong directory", path, 0, "path", wanted, path)
        self._known = found
