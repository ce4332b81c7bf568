"""SQL filters have the same results as RocketMQ, including surprising ones."""

import pytest

from tornlog.store.errors import FilterExpressionError
from tornlog.store.filters.sql_filter import DEPTH_MAX, EXPRESSION_CHARACTERS_MAX, SqlExpression


def is_match(expression: str, **properties: str) -> bool:
    return SqlExpression.parse(expression).matches(properties)


@pytest.mark.parametrize(
    ("expression", "properties"),
    [
        ("a = 'x'", {"a": "x"}),
        ("a <> 'x'", {"a": "y"}),
        ("a = 5", {"a": "5"}),
        ("a = 5", {"a": "+5"}),
        ("5 = a", {"a": "5"}),
        ("a > 5 AND a < 7", {"a": "6"}),
        ("a >= 5 and a <= 5", {"a": "5"}),
        ("a > 2.5", {"a": "2.75"}),
        ("a > 2.5", {"a": " 1e3 "}),
        ("a > .5", {"a": "1"}),
        ("a < 5.", {"a": "4.5d"}),
        ("a > 1E1", {"a": "11"}),
        ("a > 1.5", {"a": "NaN"}),  # in Java's order NaN is after all numbers
        ("a > b", {"a": "10", "b": "9"}),  # as numbers
        ("a < 4L", {"a": "3"}),
        ("a = 3000000000", {"a": "3000000000"}),
        ("a > -5", {"a": "-4"}),
        ("a < - -5", {"a": "4"}),
        ("a = +5", {"a": "5"}),
        ("a > -2147483648000", {"a": "1"}),
        ("a BETWEEN 1 AND 3", {"a": "3"}),
        ("a NOT BETWEEN 1 AND 3", {"a": "4"}),
        ("a between b and c", {"a": "2", "b": "1", "c": "3"}),
        ("a IN ('x', 'y')", {"a": "y"}),
        ("a NOT IN ('x', 'y')", {"a": "z"}),
        ("a IS NULL", {}),
        ("a IS NOT NULL", {"a": ""}),
        ("a = TRUE", {"a": "TrUe"}),
        ("a = false", {"a": "anything else"}),
        ("a <> TRUE", {"a": "no"}),
        ("TRUE", {}),
        ("NOT FALSE", {}),
        ("NOT (a = 1)", {"a": "2"}),
        ("(a > 1) = TRUE", {"a": "2"}),
        ("(a > 1) = (b > 1)", {"a": "2", "b": "2"}),
        ("a = 1 OR b = 1", {"b": "1"}),
        ("a = 1 AND b = 2 OR c = 3", {"a": "9", "b": "9", "c": "3"}),
        ("a = 'it''s'", {"a": "it's"}),
        ("a = ''", {"a": ""}),
        ("a = 'two\nlines'", {"a": "two\nlines"}),
        ("a=1--a comment\nAND/* and * another */b=2--", {"a": "1", "b": "2"}),
        ("$_a1 = 1", {"$_a1": "1"}),
        ("a = b", {}),  # two missing properties are equal
        ("5 <> a", {}),  # a value on the left makes a missing property something else, not unknown
        ("a = a", {"a": "x"}),
        ("contains = 1", {"contains": "1"}),
        ("(a > 1) <> 5", {"a": "2"}),  # a condition and a number are not comparable
        ("a > 1 OR TRUE", {"a": "2"}),
    ],
)
def test_true_sql_expressions_match(expression: str, properties: dict[str, str]) -> None:
    assert is_match(expression, **properties)


@pytest.mark.parametrize(
    ("expression", "properties"),
    [
        ("a = 'x'", {"a": "X"}),
        ("A = 'x'", {"a": "x"}),  # names are case-sensitive
        ("a = 5", {"a": "5.0"}),  # 5.0 is not an integer
        ("a = 5", {"a": " 5"}),
        ("a <> 5", {"a": "five"}),  # RocketMQ throws an exception, and the message does not match
        ("a = 1 OR TRUE", {"a": "x"}),  # the whole condition then does not match
        ("a > 5", {"a": "3000000000"}),  # too large for the type of a small constant
        ("a > 3000000000", {"a": "9" * 30}),
        ("a > 1", {"a": "9" * 5000}),
        ("a > 1.5", {"a": "0x10"}),
        ("a > b", {"a": "x", "b": "y"}),  # strings have no order
        ("a > 1", {}),
        ("a <> 1", {}),  # unknown
        ("NOT (a = 1)", {}),
        ("a NOT IN ('x')", {}),
        ("a BETWEEN 1 AND 3", {"a": "4"}),
        ("a > b", {"a": "1"}),
        ("a = 1 AND b = 1", {"a": "1"}),
        ("a = 1 OR b = 1", {"a": "2"}),
        ("a IS NULL", {"a": "x"}),
        ("a IS NOT NULL", {}),
        ("NULL", {}),
        ("FALSE", {}),
        ("a", {"a": "true"}),  # a property alone is not a boolean
        ("NOT a = 1", {"a": "1"}),  # NOT applies to `a` only
        ("TRUE = a", {"a": "true"}),  # RocketMQ throws with the string on the right
        ("a > -b", {"a": "1", "b": "2"}),  # a string has no negative
        ("-(a = 1) > 1", {"a": "1"}),
        ("-b > 1", {}),
        ("5 = (a > 1)", {"a": "2"}),
        ("a = 'x'", {"a": "x" * 2}),
        ("a > 1.5", {"a": "-0.0"}),
    ],
)
def test_false_and_unknown_sql_expressions_do_not_match(expression: str, properties: dict[str, str]) -> None:
    assert not is_match(expression, **properties)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", r"@ 0: expected a property, a value or \(, found the end"),
        ("a = ", "@ 4: expected a property"),
        ("(a = 1", r"@ 6: expected \)"),
        ("a = 1 b", "@ 6: expected an operator or the end, found b"),
        ("a LIKE 'x%'", "@ 2: expected an operator or the end, found LIKE"),
        ("a = 'x", "@ 4: expected a name, a value or an operator"),
        ("a ! 1", "@ 2: expected a name"),
        ("a IN (1)", "@ 6: expected a string, found 1"),
        ("a IN ()", "@ 6: expected a string"),
        ("a IN ('x' 'y')", r"@ 10: expected \)"),
        ("5 IN ('x')", "IN needs a property"),
        ("a NOT 5", "@ 6: expected BETWEEN or IN"),
        ("a IS 5", "@ 5: expected NULL"),
        ("a = NULL", "NULL cannot be compared"),
        ("NULL = a", "NULL cannot be compared"),
        ("TRUE = 5", "cannot be compared with a value"),
        ("a > 'x'", "compares numbers only, not a string"),
        ("a > TRUE", "compares numbers only, not TRUE"),
        ("a > 1 > 0", "compares numbers only, not a condition"),
        ("5", "a condition cannot be a value"),
        ("-a", "a condition cannot be a negated value"),
        ("'x' AND TRUE", "a condition cannot be a value"),
        ("NOT 5", "a condition cannot be a value"),
        ("a BETWEEN 3 AND 1", "the second limit must not be lower"),
        ("a BETWEEN 'x' AND 1", "BETWEEN: 'x' is not a 32-bit integer"),
        ("a BETWEEN 1 AND NULL", "compares numbers only"),
        ("a BETWEEN 1 OR 2", "@ 12: expected AND"),
        ("a = 00", "@ 5: expected an operator or the end"),
        ("a = 9223372036854775808", "@ 4: expected a whole number up to 9223372036854775807"),
        ("a > 0.0", "@ 4: expected a positive number in the range of Java's double"),
        ("a > 1E999", "@ 4: expected a positive number in the range of Java's double"),
        ("a = é", "@ 4: expected a name"),
    ],
)
def test_an_invalid_sql_expression_is_refused_with_its_position(expression: str, message: str) -> None:
    with pytest.raises(FilterExpressionError, match=message):
        SqlExpression.parse(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * (DEPTH_MAX + 1) + "TRUE" + ")" * (DEPTH_MAX + 1),
        "NOT " * 10_000 + "TRUE",
        "- " * 10_000 + "5 > a",
        "a" + " = 1" * (DEPTH_MAX + 1),
        "a" + " IS NULL" * (DEPTH_MAX + 1),
    ],
)
def test_the_nesting_depth_of_sql_expressions_is_limited(expression: str) -> None:
    with pytest.raises(FilterExpressionError, match=f"at most {DEPTH_MAX} levels of nesting"):
        SqlExpression.parse(expression)


def test_a_long_chain_of_sql_conditions_does_not_count_as_nested() -> None:
    many = SqlExpression.parse(" OR ".join(f"a = '{number}'" for number in range(3_000)))

    assert many.matches({"a": "2999"})
    assert not many.matches({"a": "3000"})
    assert is_match(" AND ".join(["TRUE"] * 3_000))


def test_the_length_of_a_sql_expression_is_limited() -> None:
    with pytest.raises(FilterExpressionError, match="characters, found"):
        SqlExpression.parse("a" * (EXPRESSION_CHARACTERS_MAX + 1))


def test_a_sql_error_contains_its_position() -> None:
    with pytest.raises(FilterExpressionError) as caught:
        SqlExpression.parse("a = 1 b")

    assert caught.value.position == 6


@pytest.mark.parametrize(
    ("expression", "value", "wanted"),
    [
        ("a = 3", "٣", True),
        ("a = 3", "\U0001d7db", False),
        ("a = 3", "3\u3000", False),
        ("a > 2.5", "3\u3000", False),
        ("a > 2.5", " 3 ", True),
    ],
)
def test_numeric_property_values_are_parsed_as_in_java(expression: str, value: str, wanted: bool) -> None:
    assert SqlExpression.parse(expression).matches({"a": value}) is wanted
