"""Tells whoever runs a broker why its store takes no messages: once when that begins, and once when it is over."""

from collections.abc import Callable

from ..message_store import MessageStore
from ..retention.disk_usage import used_ratio
from ..running_flags import Refusal
from ..world import World


def _say_nothing(_: str) -> None:
    """Leave it untold."""


class StoreWatch:
    """Looks at one store. Any task may have it look."""

    def __init__(self, world: World, store: MessageStore) -> None:
        self.tell: Callable[[str], None] = _say_nothing
        self._store = store
        self._files = world.files
        self._lock = world.tasks.lock("store watch")
        self._told: dict[str, str] = {}
        """What is the matter, and what is to be said when it no longer is."""

    def look(self) -> None:
        """Tell what is new."""
        with self._lock:
            self._note(
                "disk full",
                self._full_disk() if self._store.flags.bits & Refusal.DISK_FULL else None,
                "the disk has room again: messages are taken",
            )
            failure = self._store.allocate.failure
            self._note(
                "no segment",
                None if failure is None else self._no_segment(*failure),
                "the commit log has a new segment: messages are taken",
            )

    def _note(self, matter: str, line: str | None, over: str) -> None:
        if line is not None and matter not in self._told:
            self._told[matter] = over
            self.tell(line)
        elif line is None and matter in self._told:
            self.tell(self._told.pop(matter))

    def _full_disk(self) -> str:
        config = self._store.config
        shares = [
            f"{path} {self._share(path)}"
            for path in (*config.commit_log_directories, config.consume_queue_directory)
        ]
        return (
            f"the disk is full ({', '.join(shares)} used): messages are refused until no more than"
            f" {config.disk_space_clean_forcibly_ratio:.0%} is (diskSpaceCleanForciblyRatio)"
        )

    def _share(self, path: str) -> str:
        try:
            return f"{used_ratio(self._files.space(path)):.0%}"
        except OSError as error:
            return f"unknown ({error.strerror})"

    def _no_segment(self, path: str, size_bytes: int, error: OSError) -> str:
        return (
            f"{path}: a segment of {size_bytes:,} bytes cannot be made: {error.strerror}: messages are refused until"
            " one can be; a volume too small for one needs a smaller mapedFileSizeCommitLog"
        )
