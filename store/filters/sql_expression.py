"""SQL expressions: builds and evaluates the parts of a filter.

The value of a missing property is unknown (None), and so is every value that depends on it. A message matches only if
the result is True. Some of RocketMQ's rules are surprising: if `a` is missing, `5 = a` is False, not unknown; a
condition that is only a property is never True. A combination that RocketMQ refuses raises ValueError with the reason.

Values are compared like Java's boxed types. A string is converted to the type of the other value. Properties are
strings. Constants are strings, booleans, doubles, 32-bit integers (int) or 64-bit integers (JavaLong). Source:
RocketMQ ComparisonExpression, LogicExpression, UnaryExpression, PropertyExpression, ConstantExpression; Java's Integer,
Long, Double and Boolean valueOf and compareTo.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from math import copysign, isnan
from typing import NamedTuple

from ..formats.java_text import java_integer, java_order, java_trim

_UNLIKE = -1
"""The result of a comparison of incompatible types."""

_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)

Value = str | bool | int | float | None
"""Value of an expression. None means unknown."""

_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class JavaLong(int):
    """An integer that Java stores in 64 bits."""


class NotComparableError(Exception):
    """A comparison throws an exception in Java, so the message does not match."""


def compare(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """Return a negative, zero or positive number. Raises NotComparableError for an invalid string."""
    if isinstance(left, str):
        if isinstance(right, str):
            return (java_order(left) > java_order(right)) - (java_order(left) < java_order(right))
        return compare(_convert_like(left, right), right)
    if isinstance(right, str):
        if isinstance(left, bool):
            raise NotComparableError(f"{left} with {right!r}")
        return compare(left, _convert_like(right, left))
    if isinstance(left, bool) or isinstance(right, bool):
        return left - right if isinstance(left, bool) and isinstance(right, bool) else _UNLIKE
    if isinstance(left, float) or isinstance(right, float):
        first, second = _double_sort_key(float(left)), _double_sort_key(float(right))
        return (first > second) - (first < second)
    return (left > right) - (left < right)


def _convert_like(text: str, other: bool | int | float) -> bool | int | float:
    if isinstance(other, bool):
        return text.lower() == "true"  # Boolean.valueOf regards any other text as false
    if isinstance(other, float):
        return _parse_double(text)
    bits = 64 if isinstance(other, JavaLong) else 32
    value = java_integer(text, bits)
    if value is not None:
        return value
    raise NotComparableError(f"{text!r} is not a {bits}-bit integer")


def _parse_double(text: str) -> float:
    trimmed = java_trim(text)
    if _DOUBLE.fullmatch(trimmed) is None:
        raise NotComparableError(f"{text!r} is not a number")
    # Unlike Python's float, Double.valueOf accepts a suffix.
    return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))


def _double_sort_key(value: float) -> tuple[bool, float, float]:
    """Return a sort key for Java's order of doubles: -0.0 is before 0.0, and NaN is last."""
    return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))


Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class PartKind(Enum):
    """Kind of a part, which decides where the part is allowed."""

    PROPERTY = "a property"
    CONSTANT = "a value"
    BOOLEAN_CONSTANT = "TRUE, FALSE or NULL"
    CONDITION = "a condition"
    NEGATED = "a negated value"


class SqlNode(NamedTuple):
    """A part of an expression. `evaluate` may raise NotComparableError."""

    kind: PartKind
    evaluate: Evaluate
    depth: int = 1
    value: Value = None
    """The value of a constant. None for other parts."""


def constant_node(value: Value) -> SqlNode:
    """Build a constant; None means NULL."""
    kind = PartKind.BOOLEAN_CONSTANT if value is None or isinstance(value, bool) else PartKind.CONSTANT
    return SqlNode(kind, lambda _: value, value=value)


def property_node(name: str) -> SqlNode:
    return SqlNode(PartKind.PROPERTY, lambda properties: properties.get(name))


def _condition_node(evaluate: Evaluate, *parts: SqlNode) -> SqlNode:
    assert parts, "a condition needs a part"
    return SqlNode(PartKind.CONDITION, evaluate, 1 + max(part.depth for part in parts))


# -- logic -----------------------------------------------------------------------------------------


def condition_node(part: SqlNode) -> SqlNode:
    """Convert a part to a condition. A property becomes False if the message has it, else unknown."""
    if part.kind in (PartKind.CONDITION, PartKind.BOOLEAN_CONSTANT):
        return part
    if part.kind is not PartKind.PROPERTY:
        raise ValueError(f"a condition cannot be {part.kind.value}")
    evaluate = part.evaluate
    return _condition_node(lambda properties: None if evaluate(properties) is None else False, part)


def negation_node(part: SqlNode) -> SqlNode:
    evaluate = condition_node(part).evaluate

    def negated(properties: Properties) -> Value:
        value = evaluate(properties)
        return None if value is None else not value

    return _condition_node(negated, part)


def _build_and_or(parts: Sequence[SqlNode], *, decisive: bool) -> SqlNode:
    """Combine parts. The result is `decisive` if any part is, else unknown if any part is unknown."""
    assert len(parts) > 1, len(parts)
    conditions = [condition_node(part).evaluate for part in parts]

    def evaluate_junction(properties: Properties) -> Value:
        known = True
        for evaluate in conditions:
            value = evaluate(properties)
            if value is decisive:
                return decisive
            known = known and value is not None
        return not decisive if known else None

    return _condition_node(evaluate_junction, *parts)


conjunction = partial(_build_and_or, decisive=False)
disjunction = partial(_build_and_or, decisive=True)


# -- comparisons -----------------------------------------------------------------------------------


def equality_node(left: SqlNode, right: SqlNode) -> SqlNode:
    if any(part.kind is PartKind.BOOLEAN_CONSTANT and part.value is None for part in (left, right)):
        raise ValueError("NULL cannot be compared: use IS NULL")
    if left.kind is PartKind.BOOLEAN_CONSTANT and right.kind is PartKind.CONSTANT:
        raise ValueError(f"{left.kind.value} cannot be compared with {right.kind.value}")
    return _equal_node(left, right)


def is_null_node(part: SqlNode) -> SqlNode:
    return _equal_node(part, constant_node(None))


def _equal_node(left: SqlNode, right: SqlNode) -> SqlNode:
    evaluate_left, evaluate_right = left.evaluate, right.evaluate

    def evaluate_equality(properties: Properties) -> Value:
        first, second = evaluate_left(properties), evaluate_right(properties)
        if first is None:
            return True if second is None else None
        return second is not None and compare(first, second) == 0

    return _condition_node(evaluate_equality, left, right)


def comparison_node(left: SqlNode, symbol: str, right: SqlNode) -> SqlNode:
    assert symbol in _ORDERS, symbol
    for part in (left, right):
        is_word = part.kind is PartKind.CONSTANT and isinstance(part.value, str)
        if is_word or part.kind in (PartKind.BOOLEAN_CONSTANT, PartKind.CONDITION):
            found = "a string" if is_word else part.kind.value
            raise ValueError(f"{symbol} compares numbers only, not {found}")
    evaluate_left, evaluate_right, holds = left.evaluate, right.evaluate, _ORDERS[symbol]

    def evaluate_comparison(properties: Properties) -> Value:
        first = evaluate_left(properties)
        if first is None or (second := evaluate_right(properties)) is None:
            return None
        if isinstance(first, str) and isinstance(second, str):
            return holds(compare(_parse_double(first), _parse_double(second)))
        return holds(compare(first, second))

    return _condition_node(evaluate_comparison, left, right)


def between_node(part: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Build a range condition that includes both limits."""
    if low.value is not None and high.value is not None and _is_greater(low.value, high.value):
        raise ValueError(f"BETWEEN {low.value!r} AND {high.value!r}: the second limit must not be lower")
    return conjunction([comparison_node(part, ">=", low), comparison_node(part, "<=", high)])


def _is_greater(low: str | bool | int | float, high: str | bool | int | float) -> bool:
    try:
        return compare(high, low) < 0
    except NotComparableError as error:
        raise ValueError(f"BETWEEN: {error}") from error


def not_between_node(part: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    return disjunction([comparison_node(part, "<", low), comparison_node(part, ">", high)])


def membership_node(part: SqlNode, words: Sequence[str], *, negated: bool) -> SqlNode:
    if part.kind is not PartKind.PROPERTY:
        raise ValueError(f"IN needs a property, not {part.kind.value}")
    evaluate, wanted = part.evaluate, frozenset(words)

    def evaluate_membership(properties: Properties) -> Value:
        value = evaluate(properties)
        return None if value is None else (value in wanted) is not negated

    return _condition_node(evaluate_membership, part)


def minus_node(part: SqlNode) -> SqlNode:
    """Negate a number. The result is unknown for any other value."""
    evaluate = part.evaluate

    def negated(properties: Properties) -> Value:
        value = evaluate(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):  # Python's bool is an int, Java's is not
            return None
        return JavaLong(-value) if isinstance(value, JavaLong) else -value

    return SqlNode(PartKind.NEGATED, negated, part.depth + 1)
