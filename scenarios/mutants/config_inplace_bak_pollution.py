"""#31 config-inplace-bak-pollution: a side file is copied to its backup, whatever it holds, and rewritten in place.

A crash in the rewriting leaves the backup as the only good version, and the next rewriting begins by copying the torn
file over it.
"""

from dataclasses import replace

from ...store.side_file import SideFile
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _store(self: SideFile, content: bytes) -> bool:
    if content == self._content:
        return False
    self._content = None
    files = self._files
    self._make_directory()
    if files.status(self.path) is not None:
        files.write(self.backup_path, files.read(self.path))
        files.sync(self.backup_path)
    files.write(self.path, content)
    files.sync(self.path)
    files.sync_directory(self._directory)
    self._content = content
    return True


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        offsets=(True,),
        consumers=(2,),
        topics=(1,),
        queues_per_topic=(1,),
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        messages_each=(3,),
        lives=(6, 9),
        endings=("crash in persist",),
    )


MUTANT = Mutant(
    "config-inplace-bak-pollution",
    "progress files",
    "a side file that a crash tore is copied over its good backup by the next one that writes it",
    (Patch(SideFile, "store", _store),),
    _narrow,
    ("META",),
)
