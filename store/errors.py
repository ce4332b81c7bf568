"""Errors of the store: all that it raises by itself is a StoreError; what the disk does to it is an OSError."""

from errno import EDQUOT, ENOSPC


class StoreError(Exception):
    """Anything that keeps the store from its promises."""


class CorruptFileError(StoreError):
    """Bytes on disk break their format.

    >>> print(CorruptFileError("commitlog/0", 4096, "bodyCRC", "9ae0daaf", "00000000"))
    commitlog/0 @ 4096: bodyCRC: expected 9ae0daaf, found 00000000
    """

    def __init__(self, file: str, offset: int, field: str, expected: object, found: object) -> None:
        super().__init__(f"{file} @ {offset}: {field}: expected {expected}, found {found}")
        self.file = file
        self.offset = offset
        self.field = field
        self.expected = str(expected)
        self.found = str(found)

    def __reduce__(self) -> tuple[type["CorruptFileError"], tuple[str, int, str, str, str]]:
        return type(self), (self.file, self.offset, self.field, self.expected, self.found)


class StoreLockedError(StoreError):
    """Another live instance holds the directory."""


class StoreNotReadableError(StoreError):
    """Reads are refused: the store is shut down, or was made not readable."""


class InvalidMessageError(StoreError):
    """A message that no record can hold; the text names the limit."""


class MisplacedRecordError(StoreError):
    """A record that says a place which cannot be its own in its queue: which queue, what was expected, what it says."""

    def __init__(self, queue: str, expected: str, found: int) -> None:
        super().__init__(f"queueOffset in {queue}: expected {expected}, found {found}")
        self.queue = queue
        self.expected = expected
        self.found = found


class DivergedError(StoreError):
    """A slave's log is not a prefix of its master's, or nobody can tell: where, what was expected, what was found.

    Nothing is cut to make it fit: only an operator knows which of the two logs is to be kept.
    """

    def __init__(self, log_offset: int, expected: str, found: str) -> None:
        super().__init__(f"log offset {log_offset}: expected {expected}, found {found}")
        self.log_offset = log_offset


class FilterExpressionError(StoreError):
    """An expression that no filter can be made of: which, where in it, what was expected, what was found."""

    def __init__(self, expression: str, position: int, expected: str, found: str) -> None:
        super().__init__(f"{expression!r} @ {position}: expected {expected}, found {found}")
        self.position = position


class AccessDeniedError(StoreError):
    """A request that a broker's access rules do not allow: the code it is answered with, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def is_disk_full(error: Exception) -> bool:
    """Return whether an error says that there is no room for a file, or none left for this user."""
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)


def brings(extra: str) -> str:
    """Return the command that installs one of this package's extras: it is on no index, and comes as a checkout."""
    return f"`pip install '.[{extra}]'` in a checkout of tornlog"
