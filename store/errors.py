"""Errors of the store.

StoreError                 anything that keeps the store from its promises
  CorruptFileError         bytes on disk break their format: file @ offset, field, expected, found
  StoreLockedError         another live instance holds the directory
  StoreNotReadableError    reads are refused: the store is shut down, or was made not readable
  InvalidMessageError      a message that no record can hold
  MisplacedRecordError     a record that says a place which cannot be its own in its queue
  DivergedError            a slave's log is not what the master's was or is
  FilterExpressionError    an expression that no filter can be made of
  AccessDeniedError        a request that a broker's access rules do not allow
"""


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


def brings(extra: str) -> str:
    """Return the command that installs one of this package's extras: it is on no index, and comes as a checkout."""
    return f"`pip install '.[{extra}]'` in a checkout of tornlog"
