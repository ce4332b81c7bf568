"""Log directories: where a store with several may create segments (POS).

Segment n is in number (n mod w) of the w sorted directories that are not read-only. A segment that exists when its
directory becomes read-only stays there. Source: RocketMQ MultiPathMappedFileQueue.
"""

from collections.abc import Iterator

from ...store.config import StoreConfig
from ...store.world import Files
from .evidence import Violation, record_tried


class SegmentPlaces:
    """The directories of all segments. `check_new_segments` is called before each start, and at the end."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        """Name of a segment -> its directory."""

    def check_new_segments(self, files: Files, config: StoreConfig) -> Iterator[Violation]:
        """POS: yield each segment that was created in a wrong directory. config: that of the last start."""
        read_only = set(filter(None, config.read_only_commit_log_store_paths.split(",")))
        paths = [path for path in config.store_path_commit_log.split(",") if path]
        writable = sorted(path for path in paths if path not in read_only)
        existing = [path for path in paths if files.status(path) is not None]
        found = {name: path for path in existing for name in files.list_directory(path) if name.isdigit()}
        for name, path in sorted(found.items()):
            wanted = writable[int(name) // config.mapped_file_size_commit_log % len(writable)]
            if name not in self._known:
                record_tried("POS")
                if path != wanted:
                    yield Violation("POS", f"segment {name} is in a wrong directory", path, 0, "path", wanted, path)
        self._known = found
