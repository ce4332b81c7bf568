"""What a check says of one state, and when two say the same."""

import re
from typing import NamedTuple

HELD, BROKEN, RAISED, TIMED_OUT, DIED = "held", "broken", "raised", "timed out", "died"

_QUOTED = re.compile(r"""b?(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?P=quote)""")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_LIST = re.compile(r"(?P<one>#|'…')(?:, (?P=one))*(?=[\])}])")
"""One or more of a kind in brackets: how many there are makes no other breach of it."""


class CheckOutcome(NamedTuple):
    """What came of a check: it HELD, was BROKEN, RAISED, TIMED_OUT, or its process DIED."""

    outcome: str
    lines: tuple[str, ...] = ()
    """What is broken, in the check's words; what was raised, and where."""

    @property
    def is_broken(self) -> bool:
        """Return whether anything but HELD."""
        return self.outcome != HELD

    @property
    def signature(self) -> str:
        """Return what breaches of one kind have in common: their first line but for numbers and quoted texts."""
        first = self.lines[0] if self.lines else self.outcome
        plain = _NUMBER.sub("#", _QUOTED.sub("'…'", first))
        return _LIST.sub(r"\g<one>, …", plain)
