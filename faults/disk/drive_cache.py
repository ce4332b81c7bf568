"""A drive's volatile cache, kept behind the back of those who sync.

A lying sync is answered when what it covers is in this cache. A process kill and a crash of the system leave it alone;
a power cut takes of it what it likes, as of what was never synced. A sync that is answered honestly is a cache flush
command, which secures all that the drive holds, whoever wrote it. A sync that fails takes its pages from here, too.

Sources: Rajimwale et al., "Coerced Cache Eviction and Discreet-Mode Journaling", DSN 2011, for disks that ignore a
flush; Zheng et al., FAST 2013, for SSDs that lose what they had acknowledged; the kernel's description of how volatile
write caches are controlled.
"""

from collections.abc import Callable

from .namespace import Namespace
from .page_cache import Inode


class DriveCache:
    """What lying syncs have left in one drive's cache, in the order of their answers."""

    __slots__ = ("_held", "_names")

    def __init__(self, names: Namespace) -> None:
        self._names = names
        self._held: list[Callable[[], None]] = []

    def hold_file(self, inode: Inode, upto: int, start: int, end: int) -> bool:
        """Take what a file's sync would make durable; return whether there is anything."""
        grown = self._names.acknowledge_file(inode, upto)
        if not inode.covered_pages(upto, start, end) and not grown:
            return False
        inode.in_drive = (*inode.in_drive, (upto, start, end))

        def secure() -> None:
            inode.make_durable(upto, start, end)
            inode.in_drive = ()
            self._names.sync_file(inode, upto)

        self._held.append(secure)
        return True

    def hold_directory(self, path: str, upto: int) -> bool:
        """Take what a directory's sync would make durable; return whether there is anything."""
        if not self._names.acknowledge_directory(path, upto):
            return False
        self._held.append(lambda: self._names.sync_directory(path, upto))
        return True

    def flush(self) -> None:
        """Make everything in the cache durable."""
        for secure in self._held:
            secure()
        self._held.clear()
