"""What a log holds of one transaction."""

from dataclasses import dataclass, field

from .recovered import FoundRecord


@dataclass(slots=True)
class FoundTransaction:
    """The records of one transaction, each kind in log order."""

    half: FoundRecord | None = None
    """The put's own record."""
    put_back: list[FoundRecord] = field(default_factory=list)
    copies: list[FoundRecord] = field(default_factory=list)
    ops: list[FoundRecord] = field(default_factory=list)
    given_up: list[FoundRecord] = field(default_factory=list)
    decided: set[int] = field(default_factory=set)
    """Queue offsets in the half topic that ops name."""

    @property
    def is_decided(self) -> bool:
        """Return whether an op names the first half message: no other may come up undecided."""
        return self.half is not None and self.half.record.queue_offset in self.decided

    @property
    def is_settled(self) -> bool:
        """Return whether nobody will have to ask about it any more, once the check has come to its end."""
        if self.half is None or self.is_decided or self.given_up:
            return True
        return bool(self.put_back) and self.put_back[-1].record.queue_offset in self.decided
