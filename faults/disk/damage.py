"""What a disk has taken back, so that those who judge can tell it from what the store has lost."""

from typing import NamedTuple


class DamagedRange(NamedTuple):
    """Bytes [start, end) of a file that are not what its user was told, or shown, and the kind of fault that did it."""

    path: str
    start: int
    end: int
    kind: str
