"""#15 abort-marker-unsynced: the marker of an unclean exit is created without a directory sync.

A power cut can take its name and leave the log's pages; the next start believes in a clean stop and trusts the log.
"""

from dataclasses import replace

from ...store.message_store import MessageStore
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _mark_running(self: MessageStore) -> None:
    files = self.world.files
    files.sync_directory(self.config.store_path_root_dir)
    files.write(self.config.abort_path, b"")


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        disk=("strict-posix",),
        commit_log_bytes=(2048,),
        body_bytes_max=(300, 900),
        messages_each=(16,),
        producers=(2, 3),
        recover_whole_log=(False,),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "abort-marker-unsynced",
    "startup / shutdown marker",
    "a power cut takes the marker, and the log it leaves is trusted as after a clean stop",
    (Patch(MessageStore, "mark_running", _mark_running),),
    _narrow,
    ("PREFIX", "DUR", "CQ-COMPLETE", "CQ-VALID", "QOFF", "START"),
)
