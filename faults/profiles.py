"""What a crash may take, by kind of crash and file system.

    name          page cache   metadata            data before its size
    nothing-lost  survives     survives            -
    process-kill  survives     survives            -
    ext4-ordered  lost         in order, a prefix  yes
    strict-posix  lost         any combination     no

A lost page cache means: each page that was not synced holds the state of some moment since its last sync, each page
on its own. Data before its size: what `write` appended is on the platter before the size that covers it, as ext4's
data=ordered promises; stores through a map into space that was extended earlier have no such luck.
"""

from dataclasses import dataclass
from enum import Enum


class Metadata(Enum):
    """Which of the creations, sizes, renames and removals since the last sync survive."""

    KEPT = "all of them"
    PREFIX = "the first ones, in order"
    ANY = "any of them"


@dataclass(frozen=True, slots=True)
class CrashProfile:
    """One kind of crash."""

    name: str
    page_cache_survives: bool
    metadata: Metadata
    data_before_size: bool = False


PROFILES: dict[str, CrashProfile] = {
    profile.name: profile
    for profile in (
        CrashProfile("nothing-lost", page_cache_survives=True, metadata=Metadata.KEPT),
        CrashProfile("process-kill", page_cache_survives=True, metadata=Metadata.KEPT),
        CrashProfile(
            "ext4-ordered", page_cache_survives=False, metadata=Metadata.PREFIX, data_before_size=True
        ),
        CrashProfile("strict-posix", page_cache_survives=False, metadata=Metadata.ANY),
    )
}
