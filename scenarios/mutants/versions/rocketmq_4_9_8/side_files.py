"""How 4.9.8 replaces a side file: written aside, the current one copied over `.bak` and deleted, then renamed.

Between the last two steps there is no current version, and none of the steps is made durable. What is copied is not
looked at, so that a damaged file replaces the good backup it was passed over for.
"""

from .....store.side_file import SideFile
from ....claims.ranges import Ranges
from ...mutant import Mutant, Patch


def _store(self: SideFile, content: bytes) -> bool:
    files = self._files
    files.make_directories(self._directory)
    self._write_aside(content)
    if files.status(self.path) is not None:
        files.write(self.backup_path, files.read(self.path))
        files.unlink(self.path)
    files.rename(self.temporary_path, self.path)
    return True


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.replace(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        disk=("strict-posix",),
        lives=(2, 3),
        endings=("crash in persist", "crash in traffic"),
    )


SIDE_FILE_COPIED_AND_DELETED = Mutant(
    "side-file-copied-and-deleted",
    "progress files",
    "a side file is deleted before its next version has the name, and its backup is never synced",
    (Patch(SideFile, "store", _store),),
    _narrow,
    ("META", "SCHED", "TX", "REDEL"),
)
