"""How RocketMQ's filters compare two values: as Java's boxed types do, with strings turned into what they meet.

Properties are strings; constants are strings, booleans, doubles, and whole numbers: an int, or a Long beyond 32 bits.
Source: RocketMQ ComparisonExpression.__compare; Java's Integer, Long, Double and Boolean valueOf and compareTo.
"""

import re
from math import copysign, isnan

_UNLIKE = -1
"""What two values compare as that have nothing in common."""

_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))


class Long(int):
    """A whole number that Java keeps in 64 bits."""


Value = str | bool | int | float | None
"""What an expression can come to; None is unknown."""


class NotComparableError(Exception):
    """Two values of which Java would throw: the message is then not wanted, whatever else the expression says."""


def compare(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """Return a number below, at or above 0. Raises NotComparableError where one cannot become what the other is."""
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        return compare(_as_kind(left, right), right)
    if isinstance(right, str):
        if isinstance(left, bool):
            raise NotComparableError(f"{left} with {right!r}")
        return compare(left, _as_kind(right, left))
    if isinstance(left, bool) or isinstance(right, bool):
        return left - right if isinstance(left, bool) and isinstance(right, bool) else _UNLIKE
    if isinstance(left, float) or isinstance(right, float):
        first, second = _order(float(left)), _order(float(right))
        return (first > second) - (first < second)
    return (left > right) - (left < right)


def compare_as_doubles(left: str, right: str) -> int:
    """Compare two strings by the numbers in them. Raises NotComparableError unless both are numbers."""
    return compare(_double(left), _double(right))


def _as_kind(text: str, other: bool | int | float) -> bool | int | float:
    """Turn a string into what the other value is."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        return _double(text)
    bits = 64 if isinstance(other, Long) else 32
    if _INTEGER.fullmatch(text) and len(text) <= _DIGITS_MAX:
        value = int(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise NotComparableError(f"{text!r} is no whole number of {bits} bits")


_DIGITS_MAX = 4_000
"""More than any number needs; Python refuses to read many more."""


def _double(text: str) -> float:
    trimmed = text.strip(_CONTROLS_AND_SPACE)
    if _DOUBLE.fullmatch(trimmed) is None:
        raise NotComparableError(f"{text!r} is no number")
    plain = trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD")
    return float(plain)


def _order(value: float) -> tuple[bool, float, float]:
    """Return what Java sorts doubles by: NaN behind all others, -0.0 in front of 0.0."""
    return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))
