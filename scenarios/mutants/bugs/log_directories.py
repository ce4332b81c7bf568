"""Bugs of a log with several directories, of which some are read-only."""

from ....store.config import StoreConfig
from ....store.log.segment_queue import SegmentDirectories
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_READ_ONLY = SCENARIOS["log-directory-read-only"].ranges.replace(
    log_directories={"read_only_from": (1,)}, retention={"deletes_segments": (False,)}
)


@bug("read-only-directory-gets-segments", StoreConfig, "writable_commit_log_directories", found_by=("POS",))
@needs(_READ_ONLY)
def every_directory(self: StoreConfig) -> tuple[str, ...]:
    """A store creates segments in a directory that its operator has made read-only."""
    bit(bool(self.read_only_commit_log_directories))
    return self.commit_log_directories


@bug("read-only-directory-not-loaded", SegmentDirectories, "existing_directories", found_by=("DUR", "PREFIX", "START"))
@needs(_READ_ONLY)
def writable_directories(self: SegmentDirectories) -> list[str]:
    """A load does not look for segments in read-only directories, so their messages are lost."""
    found = writable_directories.original(self)
    bit(any(each not in self.writable for each in found))
    return [each for each in found if each in self.writable]
