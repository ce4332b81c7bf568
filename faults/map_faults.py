"""How often a mapped file's descriptor writes less than it should, and how often its pages are not locked."""

from collections import Counter
from dataclasses import dataclass

from ..sim.choices import Stream


@dataclass(frozen=True, slots=True)
class MapFaults:
    """A `pwrite` fails with EIO before it wrote anything, or writes only some of its first bytes; an mlock is refused.

    Nothing is said about a write by the one before it: it may be tried again. What has no chance is not drawn.
    """

    failed_write_chance: float = 0.0
    short_write_chance: float = 0.0
    refused_lock_chance: float = 0.0

    def draw_failed_write(self, stream: Stream, path: str, fired: Counter[str]) -> bool:
        """Return whether this write fails, and count it if so."""
        return _drawn(self.failed_write_chance, "failed write", stream, path, fired)

    def draw_written(self, stream: Stream, path: str, size_bytes: int, fired: Counter[str]) -> int:
        """Return how many of a write's bytes are written, and count it if they are not all. Never none of several."""
        if size_bytes < 2 or not _drawn(self.short_write_chance, "short write", stream, path, fired):
            return size_bytes
        return stream.between(1, size_bytes - 1, f"bytes of a short write {path}")

    def draw_refused_lock(self, stream: Stream, path: str, fired: Counter[str]) -> bool:
        """Return whether the pages of this map are not locked, and count it if so."""
        return _drawn(self.refused_lock_chance, "refused mlock", stream, path, fired)


def _drawn(chance: float, fault: str, stream: Stream, path: str, fired: Counter[str]) -> bool:
    if not stream.chance(chance, f"{fault} {path}"):
        return False
    fired[fault] += 1
    return True
