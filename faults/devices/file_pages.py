"""One file's pages, as the page cache of a timed machine knows them: which are dirty, on their way, or cached."""

from .placement import FileBlocks
from .waiters import Waiters


class FilePages:
    """Invariant: a page is dirty while the device has not been given what it holds."""

    __slots__ = ("blocks", "commit_number", "dirty", "dirty_since_ns", "in_flight", "path", "written")

    def __init__(self, path: str, written: Waiters) -> None:
        self.path = path
        self.blocks = FileBlocks()
        self.dirty: set[int] = set()
        self.dirty_since_ns = 0
        """When the first of the dirty pages became so."""
        self.in_flight = 0
        """How many are on their way to the device."""
        self.written = written
        """Who waits for those."""
        self.commit_number = 0
        """The journal's commit that takes what was last written of it."""
