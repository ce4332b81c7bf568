"""What there is to say of a kind of fault."""

from typing import NamedTuple


class FaultKind(NamedTuple):
    """One kind of fault."""

    name: str
    group: str
    meaning: str
    """What it means when it fired, in a line."""
    disk_model: str
    """What really happens."""
    model: str
    """How it is modelled, and what switches it on if it is a field of FaultPlan or NetworkPlan."""
    source: str
    by_scenarios: bool = False
    """Whether only scenarios do it: they know where it hurts."""
