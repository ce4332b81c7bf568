"""SQL expressions: what each part comes to for a message's properties, and what may be joined to it.

A property that a message lacks is unknown (None), and so is what depends on it; only what is True is wanted. The rules
are RocketMQ's, odd ones included: `5 = a` is False, not unknown, where there is no a, and a property alone never is
True. Joining what RocketMQ refuses to join raises ValueError, which says why.

Values compare as Java's boxed types do, with strings turned into what they meet. Properties are strings; constants are
strings, booleans, doubles, and whole numbers: an int, or a Long beyond 32 bits.
Source: RocketMQ ComparisonExpression, LogicExpression, UnaryExpression, PropertyExpression, ConstantExpression;
Java's Integer, Long, Double and Boolean valueOf and compareTo.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from math import copysign, isnan
from typing import NamedTuple

from ..formats.java_text import java_integer, java_order, java_trim

_UNLIKE = -1
"""What two values compare as that have nothing in common."""

_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)

Value = str | bool | int | float | None
"""What an expression can come to; None is unknown."""

_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class Long(int):
    """A whole number that Java keeps in 64 bits."""


class NotComparableError(Exception):
    """Two values of which Java would throw: the message is then not wanted, whatever else the expression says."""


def compare(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """Return a number below, at or above 0. Raises NotComparableError where one cannot become what the other is."""
    if isinstance(left, str):
        if isinstance(right, str):
            return (java_order(left) > java_order(right)) - (java_order(left) < java_order(right))
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
    if isinstance(other, bool):
        return text.lower() == "true"  # Boolean.valueOf: any other text is false
    if isinstance(other, float):
        return _double(text)
    bits = 64 if isinstance(other, Long) else 32
    value = java_integer(text, bits)
    if value is not None:
        return value
    raise NotComparableError(f"{text!r} is no whole number of {bits} bits")


def _double(text: str) -> float:
    trimmed = java_trim(text)
    if _DOUBLE.fullmatch(trimmed) is None:
        raise NotComparableError(f"{text!r} is no number")
    # Double.valueOf takes a suffix, Python's float does not.
    return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))


def _order(value: float) -> tuple[bool, float, float]:
    """Return what Java sorts doubles by: NaN behind all others, -0.0 in front of 0.0."""
    return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))


Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class PartKind(Enum):
    """What a part is, as far as it matters to what may be joined."""

    PROPERTY = "a property"
    CONSTANT = "a value"
    BOOLEAN_CONSTANT = "TRUE, FALSE or NULL"
    CONDITION = "a condition"
    NEGATED = "a negated value"


class SqlNode(NamedTuple):
    """A part of an expression. evaluate may raise NotComparableError."""

    kind: PartKind
    evaluate: Evaluate
    depth: int = 1
    """How deep parts are nested in it, itself included."""
    value: Value = None
    """Of a constant."""


def constant(value: Value) -> SqlNode:
    """Return a constant; None is NULL."""
    kind = PartKind.BOOLEAN_CONSTANT if value is None or isinstance(value, bool) else PartKind.CONSTANT
    return SqlNode(kind, lambda _: value, value=value)


def property_of(name: str) -> SqlNode:
    """Return the value of a property."""
    return SqlNode(PartKind.PROPERTY, lambda properties: properties.get(name))


def _condition(evaluate: Evaluate, *parts: SqlNode) -> SqlNode:
    assert parts, "a condition is about something"
    return SqlNode(PartKind.CONDITION, evaluate, 1 + max(part.depth for part in parts))


# -- logic -----------------------------------------------------------------------------------------


def as_condition(part: SqlNode) -> SqlNode:
    """Return a part as a condition: a property is one that is False wherever it is known."""
    if part.kind in (PartKind.CONDITION, PartKind.BOOLEAN_CONSTANT):
        return part
    if part.kind is not PartKind.PROPERTY:
        raise ValueError(f"a condition cannot be {part.kind.value}")
    evaluate = part.evaluate
    return _condition(lambda properties: None if evaluate(properties) is None else False, part)


def negation(part: SqlNode) -> SqlNode:
    """Return NOT a part."""
    evaluate = as_condition(part).evaluate

    def negated(properties: Properties) -> Value:
        value = evaluate(properties)
        return None if value is None else not value

    return _condition(negated, part)


def _joined(parts: Sequence[SqlNode], *, decisive: bool) -> SqlNode:
    """Join parts of which the first that is decisive settles the matter; else it is unknown if one of them is."""
    assert len(parts) > 1, len(parts)
    conditions = [as_condition(part).evaluate for part in parts]

    def joined(properties: Properties) -> Value:
        known = True
        for evaluate in conditions:
            value = evaluate(properties)
            if value is decisive:
                return decisive
            known = known and value is not None
        return not decisive if known else None

    return _condition(joined, *parts)


conjunction = partial(_joined, decisive=False)
"""Returns parts joined by AND."""
disjunction = partial(_joined, decisive=True)
"""Returns parts joined by OR."""


# -- comparisons -----------------------------------------------------------------------------------


def equality(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return left = right."""
    if any(part.kind is PartKind.BOOLEAN_CONSTANT and part.value is None for part in (left, right)):
        raise ValueError("NULL cannot be compared: use IS NULL")
    if left.kind is PartKind.BOOLEAN_CONSTANT and right.kind is PartKind.CONSTANT:
        raise ValueError(f"{left.kind.value} cannot be compared with {right.kind.value}")
    return _equal(left, right)


def is_null(part: SqlNode) -> SqlNode:
    """Return part IS NULL."""
    return _equal(part, constant(None))


def _equal(left: SqlNode, right: SqlNode) -> SqlNode:
    evaluate_left, evaluate_right = left.evaluate, right.evaluate

    def equal(properties: Properties) -> Value:
        first, second = evaluate_left(properties), evaluate_right(properties)
        if first is None:
            return True if second is None else None
        return second is not None and compare(first, second) == 0

    return _condition(equal, left, right)


def ordering(left: SqlNode, symbol: str, right: SqlNode) -> SqlNode:
    """Return left < right, or another of < <= > >=."""
    assert symbol in _ORDERS, symbol
    for part in (left, right):
        is_word = part.kind is PartKind.CONSTANT and isinstance(part.value, str)
        if is_word or part.kind in (PartKind.BOOLEAN_CONSTANT, PartKind.CONDITION):
            found = "a string" if is_word else part.kind.value
            raise ValueError(f"{symbol} compares numbers only, not {found}")
    evaluate_left, evaluate_right, holds = left.evaluate, right.evaluate, _ORDERS[symbol]

    def ordered(properties: Properties) -> Value:
        first = evaluate_left(properties)
        if first is None or (second := evaluate_right(properties)) is None:
            return None
        if isinstance(first, str) and isinstance(second, str):
            return holds(compare_as_doubles(first, second))
        return holds(compare(first, second))

    return _condition(ordered, left, right)


def between(part: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return part BETWEEN low AND high, both included."""
    if low.value is not None and high.value is not None and _is_above(low.value, high.value):
        raise ValueError(f"BETWEEN {low.value!r} AND {high.value!r}: the second must not be the lower one")
    return conjunction([ordering(part, ">=", low), ordering(part, "<=", high)])


def _is_above(low: str | bool | int | float, high: str | bool | int | float) -> bool:
    try:
        return compare(high, low) < 0
    except NotComparableError as error:
        raise ValueError(f"BETWEEN: {error}") from error


def not_between(part: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return part NOT BETWEEN low AND high."""
    return disjunction([ordering(part, "<", low), ordering(part, ">", high)])


def membership(part: SqlNode, words: Sequence[str], *, negated: bool) -> SqlNode:
    """Return part IN (words), or NOT IN."""
    if part.kind is not PartKind.PROPERTY:
        raise ValueError(f"IN asks about a property, not {part.kind.value}")
    evaluate, wanted = part.evaluate, frozenset(words)

    def is_member(properties: Properties) -> Value:
        value = evaluate(properties)
        return None if value is None else (value in wanted) is not negated

    return _condition(is_member, part)


def minus(part: SqlNode) -> SqlNode:
    """Return the negative of a part: unknown unless it is a number."""
    evaluate = part.evaluate

    def negated(properties: Properties) -> Value:
        value = evaluate(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):  # Python's bool is an int, Java's is none
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return SqlNode(PartKind.NEGATED, negated, part.depth + 1)
