"""How much of memory files may take, and how long they may keep it: the settings of Linux's page cache."""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """The page cache's limits.

    Times are Linux's defaults (Documentation/admin-guide/sysctl/vm.rst: dirty_expire_centisecs 3000,
    dirty_writeback_centisecs 500), and so is that writers wait at twice of what starts write-back
    (dirty_background_ratio 10, dirty_ratio 20).
    """

    dirty_bytes_max: int = 32 * _MIB
    """Above that, whoever writes waits."""
    cache_bytes: int = 64 * _MIB
    """Of pages that were read."""
    expire_ns: int = 30_000_000_000
    """How long a page may be dirty before it is written back."""
    wake_ms: int = 5_000
    """How often the flusher looks; journals commit as often."""

    @property
    def background_bytes(self) -> int:
        """Return how much may be dirty before write-back begins."""
        return self.dirty_bytes_max // 2
