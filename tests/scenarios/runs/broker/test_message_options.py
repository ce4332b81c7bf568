"""Subscriptions of simulated groups agree with the store's filters."""

from itertools import product

import pytest

from tornlog.scenarios.runs.broker.message_options import SUBSCRIPTIONS, WRONG_SQL, Subscription
from tornlog.scenarios.workload.drawing import _TIERS
from tornlog.store.errors import FilterExpressionError
from tornlog.store.filters.sql_filter import SqlExpression
from tornlog.store.formats.properties import decode_properties


@pytest.mark.parametrize("wanted", [each for each in SUBSCRIPTIONS if each.kind == "SQL92"], ids=lambda each: each.text)
def test_a_group_wants_the_messages_that_its_expression_selects(wanted: Subscription) -> None:
    expression, answers = SqlExpression.parse(wanted.text), set()
    for tag, tier in product(("", "TagA", "TagB"), _TIERS):
        properties = f"KEYS\1m\2TAGS\1{tag}\2tier\1{tier or ''}"
        answers.add(expression.matches(decode_properties(properties)))
        assert expression.matches(decode_properties(properties)) == wanted.wants(properties.encode()), (tag, tier)
    assert answers == {True, False}


@pytest.mark.parametrize("text", WRONG_SQL, ids=lambda text: text[:40])
def test_a_wrong_expression_is_refused(text: str) -> None:
    with pytest.raises(FilterExpressionError):
        SqlExpression.parse(text)
