"""What a consumer is given: records as they stand in the log, and where to go on."""

from dataclasses import dataclass, field
from enum import Enum


class GetMessageStatus(Enum):
    """The answer to a pull."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(slots=True)
class GetMessageResult:
    """The answer to a pull. Offsets are queue offsets but for physical_offsets."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes] = field(default_factory=list, repr=False)
    queue_offsets: list[int] = field(default_factory=list)
    physical_offsets: list[int] = field(default_factory=list)
    suggest_pulling_from_slave: bool = False
    fall_behind_bytes: int = -1
    """How far before the log's end the last message lies that was looked at, -1 if none was."""

    @property
    def buffer_total_bytes(self) -> int:
        """Return how many bytes the records are together."""
        return sum(map(len, self.records))
