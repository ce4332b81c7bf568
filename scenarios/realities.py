"""Disks as they are met in reality: what their crashes leave, and what else goes wrong on them.

A scenario names the disks it may run on, and every seed draws one. What is still promised on it is one table, in
`judging.promised`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reality:
    """One kind of disk under one kind of file system."""

    name: str
    meaning: str
    crashes: Sequence[str]
    """What a life may end with, names in `faults.profiles`; a more likely one is there more often."""
    faults: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What goes wrong beside that: fields of FaultPlan with the values to draw from."""


REALITIES: dict[str, Reality] = {
    reality.name: reality
    for reality in (
        Reality("nothing-lost", "a machine that stops and keeps everything", ("nothing-lost",)),
        Reality("process-kill", "a process that is killed; the system lives on", ("process-kill",)),
        Reality(
            "ext4-ordered",
            "ext4 with data=ordered: metadata in order, appended data before its size",
            ("ext4-ordered", "ext4-ordered", "process-kill"),
        ),
        Reality(
            "strict-posix",
            "any file system POSIX allows: what was not synced is lost in any combination",
            ("strict-posix", "strict-posix", "process-kill"),
        ),
    )
}
