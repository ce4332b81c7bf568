"""#30 config-rename-without-sync: a new version of a side file is written aside and renamed, its data not synced.

After a power cut the name can lead to an empty file, or to half of one.
"""

from dataclasses import replace

from ...store.side_file import SideFile
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _write_aside(self: SideFile, content: bytes) -> None:
    self._files.write(self.temporary_path, content)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        offsets=(True,),
        consumers=(2,),
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        disk=("strict-posix",),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "config-rename-without-sync",
    "progress files",
    "a new version of a side file takes the name of the old one before its data is durable",
    (Patch(SideFile, "_write_aside", _write_aside),),
    _narrow,
    ("META",),
)
