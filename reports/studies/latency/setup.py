"""What is measured: a way of flushing, a number of producers, a rate."""

from dataclasses import dataclass
from typing import Any

from ....store.config import FlushDiskType, StoreConfig

_MIB = 1 << 20

FLUSHES = ("sync", "async", "pool")
"""SYNC_FLUSH, ASYNC_FLUSH, and ASYNC_FLUSH with the transient pool."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One series of puts."""

    flush: str
    """One of FLUSHES."""
    producers: int
    rate: float
    """Puts per second, of all producers together, whatever the store makes of them."""
    puts: int
    """Of all producers together."""
    body_bytes: int = 1024
    segment_bytes: int = 16 * _MIB
    warm: bool = False
    """Whether segments are touched, page by page, and locked in memory before they are used."""
    seed: int = 0

    def config(self, directory: str) -> StoreConfig:
        """Return the settings of a store in a directory."""
        return config_of(self.flush, directory, self.segment_bytes, warm_mapped_file_enable=self.warm)


def config_of(flush: str, directory: str, segment_bytes: int, **others: Any) -> StoreConfig:
    """Return the settings of a store that flushes in one of the ways of FLUSHES. ValueError: there is no such."""
    if flush not in FLUSHES:
        raise ValueError(f"flush: expected one of {', '.join(FLUSHES)}, found {flush}")
    return StoreConfig(
        directory,
        flush_disk_type=FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH,
        transient_store_pool_enable=flush == "pool",
        mapped_file_size_commit_log=segment_bytes,
        mapped_file_size_consume_queue=_MIB,
        message_index_enable=False,
        **others,
    )
