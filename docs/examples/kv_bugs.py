"""Four typical bugs of such stores: a missing line, or a line in the wrong place."""

from kv_log import SEGMENT_BYTES, KvLog, encode_checkpoint


class NoDirectorySync(KvLog):
    """Durability: the content of a new segment is synced, its name is not."""

    def _rotate(self) -> None:
        self._number += 1
        self._segment = self._files.map(self._path(self._number), SEGMENT_BYTES)
        self._end = 0


class RenameBeforeSync(KvLog):
    """Torn: the new checkpoint replaces the old one before its content is durable."""

    def _replace_checkpoint(self, values: dict[bytes, bytes], first: int) -> None:
        new, name = f"{self._directory}/checkpoint.new", f"{self._directory}/checkpoint"
        self._files.write(new, encode_checkpoint(values, first))
        self._files.rename(new, name)
        self._files.sync(name)
        self._sync_names()


class SnapshotOutsideTheLock(KvLog):
    """Interleaving: a put between the copy of the values and the new segment is in neither."""

    def compact(self) -> None:
        """Do the same as KvLog, without the lock."""
        values = self.items()
        with self._lock:
            covered = self._number
            self._rotate()
        self._replace_checkpoint(values, covered + 1)
        self._remove_segments(upto=covered)


class TakenWithoutTheLock(KvLog):
    """Race: a put between the copy of the list and its clearing is forgotten, and waits for ever."""

    def _flush(self) -> None:
        """Do the same as KvLog, without the lock."""
        while self._is_open:
            self._work.wait(None)
            segments, waiting = self._unsynced, list(self._waiting)
            self._unsynced = []
            self._waiting.clear()
            for segment in segments:
                segment.fdatasync()
            for durable in waiting:
                durable.notify()
