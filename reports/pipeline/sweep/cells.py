"""Cells: the regions that seeds can be steered to, each a scenario on one of its disks under one of its policies."""

from typing import NamedTuple

from ....scenarios.claims.catalogue import SCENARIOS
from .request import SweepRequest


class DrawRegion(NamedTuple):
    """A region of what seeds draw."""

    scenario: str
    disk: str
    policy: str


def cells_of(request: SweepRequest) -> list[DrawRegion]:
    """Return every cell that the seeds of a request may fall into, those of a scenario side by side."""
    cells = []
    for name in request.scenarios:
        ranges = SCENARIOS[name].narrowed(disk=request.disk, policy=request.policy).ranges
        cells += [
            DrawRegion(name, disk, policy)
            for disk in dict.fromkeys(ranges["disk"])
            for policy in dict.fromkeys(ranges["policy"])
        ]
    return cells
