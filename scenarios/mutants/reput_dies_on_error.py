"""#18 reput-dies-on-error: one class of errors ends the dispatcher for good, while puts go on being acknowledged."""

from collections.abc import Callable
from dataclasses import replace

from ...store.dispatch import DispatchService
from ..plan import Ranges
from .mutant import Mutant, Patch

try_ = DispatchService._try


def _try(self: DispatchService, work: Callable[[], bool]) -> bool:
    escaped: list[OSError] = []

    def work_or_escape() -> bool:
        try:
            return work()
        except OSError as error:
            escaped.append(error)
            return False

    moved = try_(self, work_or_escape)
    if escaped:
        raise escaped[0]
    return moved


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, failed_creation_chance=(0.2,))


MUTANT = Mutant(
    "reput-dies-on-error",
    "dispatch thread",
    "a file that cannot be made ends the dispatcher, and nothing becomes visible any more",
    (Patch(DispatchService, "_try", _try),),
    _narrow,
    ("LIVE",),
)
