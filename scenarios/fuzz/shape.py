"""What is where in an input, as far as breaking it needs to know: fields with a meaning, and parts that repeat."""

from typing import NamedTuple

LENGTH = "length"
"""Of something that follows, or of the whole."""
OFFSET = "offset"
"""A place, in this file or in another one."""
CONSTANT = "constant"
"""A magic number, a version, a kind."""
CHECKSUM = "checksum"
NUMBER = "number"
"""A count, a time, a flag."""
TEXT = "text"
"""Bytes of no fixed meaning."""


class Field(NamedTuple):
    """Some bytes with one meaning; integers are big-endian."""

    at: int
    size_bytes: int
    kind: str


class ShapePart(NamedTuple):
    """A record, an entry, a line: what can be left out, repeated or moved as a whole."""

    start: int
    end: int


class Shape(NamedTuple):
    """The fields and parts of one input, as it was before anything was broken."""

    fields: tuple[Field, ...]
    parts: tuple[ShapePart, ...]


PLAIN = Shape((), ())
"""Of bytes of which nothing is known."""
