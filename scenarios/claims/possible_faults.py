"""Possible faults: the kinds of fault that some seed of the given ranges can inject.

Reports do not list other kinds as missing coverage.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ...faults.crashes.profiles import PROFILES
from ...faults.kinds import FaultKind
from .disk_models import DISK_MODELS
from .plan import KNOBS, LifeEnding
from .ranges import Options, Ranges, options_of_disk

_ENDINGS: Mapping[FaultKind, tuple[LifeEnding, ...]] = {
    FaultKind.POWER_CUT_AFTER_STOP: tuple(LifeEnding),  # the machine may crash after the last stop
    FaultKind.STALE_BLOCKS: (LifeEnding.CRASH_ON_OLD_BLOCKS,),
    FaultKind.WRONG_FILE_SIZE: (
        LifeEnding.STOP_AND_ODD_FILE,
        LifeEnding.STOP_AND_STRAYS,
        LifeEnding.STOP_AND_LARGER_QUEUE_FILES,
    ),
    FaultKind.STRAY_FILE: (LifeEnding.STOP_AND_STRAYS,),
    FaultKind.DAMAGED_CHECKPOINT: (LifeEnding.STOP_AND_STRAYS,),
    FaultKind.SEGMENT_AFTER_GAP: (LifeEnding.STOP_AND_STRAYS,),
    FaultKind.DUPLICATE_SEGMENT: (LifeEnding.STOP_AND_STRAYS,),
    FaultKind.LOST_SECTOR: (LifeEnding.STOP_AND_DAMAGE,),
    FaultKind.DAMAGED_RECORD: (LifeEnding.STOP_AND_DAMAGED_RECORD,),
    FaultKind.FLIPPED_NUMBER: (LifeEnding.STOP_AND_FLIPPED_NUMBER,),
    FaultKind.ZEROED_SECTOR: (LifeEnding.STOP_AND_DAMAGED_PROGRESS,),
    FaultKind.FULL_AT_START: (LifeEnding.STOP_AND_FULL_DISK,),
    FaultKind.MISSING_SEGMENT: (LifeEnding.STOP_AND_MISSING_SEGMENT,),
}
"""The endings that inject each fault."""


def possible_faults(ranges: Ranges) -> frozenset[str]:
    disks = [DISK_MODELS[name] for name in _options_at(ranges, "disk")]
    endings = set(_options_at(ranges, "endings"))
    loses_pages = any(not PROFILES[crash].page_cache_survives for disk in disks for crash in disk.crashes)
    of_disks = [{**options_of_disk(disk), "capacity_bytes": disk.capacity_bytes} for disk in disks]
    possible = set()
    for kind in FaultKind:
        row, paths = kind.row, paths_of(kind)
        if kind is FaultKind.DUPLICATE_SEGMENT and max(_options_at(ranges, "directories.log_directories")) == 1:
            continue
        if (
            any(ending in endings for ending in _ENDINGS.get(kind, ()))
            or any(any(_options_at(ranges, path, of_disks)) for path in paths)
            or (not paths and row.group == "crash" and not row.by_scenarios and loses_pages)
            or (
                kind is FaultKind.SILENT_DEATH and not ranges.is_alone
            )  # in a run of several machines, a power cut is a silent death
            or (kind is FaultKind.PARTITION and any(_options_at(ranges, "cluster.changes_roles")))
            or (kind is FaultKind.DISK_FULL and any(_options_at(ranges, "log_directories.full_directory")))
        ):
            possible.add(kind.value)
    return frozenset(possible)


@cache
def paths_of(kind: FaultKind) -> tuple[str, ...]:
    """Return the paths in `KNOBS` of the knob that enables a fault, or the fault before it."""
    knob = kind.row.follows or kind.row.knob
    return tuple(path for path in KNOBS if knob and f".{path}".endswith(f".{knob}"))


def _options_at(ranges: Ranges, path: str, of_disks: Iterable[Mapping[str, Options]] = ()) -> list[Any]:
    values = [*ranges[path]]
    for options in (*ranges.optional.values(), *of_disks):
        values += options.get(path, ())
    return values
