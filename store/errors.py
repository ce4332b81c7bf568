"""Errors of the store. Failures of the disk and the network are OSErrors."""

from errno import EDQUOT, ENOSPC


class StoreError(Exception):
    """Base of the store's own errors."""


class CorruptFileError(StoreError):
    """Bytes on disk violate the file format.

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
    """Another running instance has locked the directory."""


class StoreNotReadableError(StoreError):
    """Reads are refused: the store is shut down or was switched to not readable."""


class InvalidMessageError(StoreError):
    """A message is too large for a record."""


class MisplacedRecordError(StoreError):
    """A record's queue offset does not fit its queue."""

    def __init__(self, queue: str, expected: str, found: int) -> None:
        super().__init__(f"queueOffset in {queue}: expected {expected}, found {found}")
        self.queue = queue
        self.expected = expected
        self.found = found


class DivergedError(StoreError):
    """A slave's log may differ from its master's log.

    Only an operator knows which log to keep, so both logs stay unchanged.
    """

    def __init__(self, log_offset: int, expected: str, found: str) -> None:
        super().__init__(f"log offset {log_offset}: expected {expected}, found {found}")
        self.log_offset = log_offset


class FilterExpressionError(StoreError):
    """A filter expression is invalid. The error names the position, the expectation and the text found."""

    def __init__(self, expression: str, position: int, expected: str, found: str) -> None:
        super().__init__(f"{expression!r} @ {position}: expected {expected}, found {found}")
        self.position = position


class AccessDeniedError(StoreError):
    """The access rules of a broker forbid a request."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def is_disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)


def install_command(extra: str) -> str:
    """Return the command that installs an extra. The package is on no index, so the command needs a checkout."""
    return f"`pip install '.[{extra}]'` in a checkout of tornlog"
