"""#21 second-instance-recovers-before-lock: the directory is locked after recovery instead of before it.

The second instance finds the marker of the first, takes the tail it reads for a crash's, and removes the segments
that were made ahead, before the lock tells it that somebody is at work here.
"""

from dataclasses import replace

from ...store.log.recovery import RecoveryReport
from ...store.message_store import MessageStore
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

lock_directory = MessageStore._lock_directory
recover = MessageStore.recover


def _lock_directory(self: MessageStore) -> None:
    self.world.files.make_directories(self.config.store_path_root_dir)


def _recover(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    report = recover(self, clean_exit=clean_exit)
    lock_directory(self)
    return report


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, second_start=(True,))


MUTANT = Mutant(
    "second-instance-recovers-before-lock",
    "startup / locking",
    "a second start on a live directory recovers it before it finds out that it is locked",
    (Patch(MessageStore, "_lock_directory", _lock_directory), Patch(MessageStore, "recover", _recover)),
    _narrow,
    ("ISO", "POS", "STATUS", "DUR", "LIVE", "CKPT"),
)
