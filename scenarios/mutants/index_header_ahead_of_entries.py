"""#45 index-header-ahead-of-entries: after a crash the header of an index file is believed, entries unseen.

Header and entries are in different sectors, so one may be durable without the other; what the header counts is not
indexed again.
"""

from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.index.index_file import IndexFile
from ...store.index.index_recovery import IndexRecovery, Place
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

_ALL_KEYS = 1 << 31

end_of = IndexRecovery._end_of


def _end_of(
    self: IndexRecovery, file: IndexFile, begin: Place
) -> tuple[Place | None, CorruptFileError | None]:
    if self._clean_exit:
        return end_of(self, file, begin)
    if file.header.next_entry == 1:
        return None, None
    return (file.end_physical_offset, _ALL_KEYS), None


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        index_slots=(40,),
        index_entries=(60, 200),
        messages_each=(16,),
        disk=("strict-posix", "ext4-ordered"),
        endings=("crash at rest", "crash in traffic"),
    )


MUTANT = Mutant(
    "index-header-ahead-of-entries",
    "index",
    "after a crash an index file is kept as far as its header says, without a look at its entries",
    (Patch(IndexRecovery, "_end_of", _end_of),),
    _narrow,
    ("IDX",),
)
