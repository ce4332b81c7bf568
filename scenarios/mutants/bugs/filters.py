"""Bugs of subscriptions: SQL expressions, and registered filters that change."""

from ....store.errors import FilterExpressionError
from ....store.filters import sql_expression, sql_filter
from ....store.filters.sql_expression import NotComparableError
from ....store.filters.sql_filter import SqlExpression
from ....store.services.consumer_filter import ConsumerFilterData, ConsumerFilterManager
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import FILTERS
from ..mutant import bit, bug, needs

_FILTERING = SCENARIOS["consumer-order"].ranges.replace(**FILTERS)
_REGISTERING = _FILTERING.replace(broker={"registers_filters": (True,)}, settings={"enable_consume_queue_ext": (True,)})


# Boolean.valueOf regards each text except "true" as false.
@bug("sql-boolean-needs-its-word", sql_expression, "_convert_like", found_by=("READ", "PREFIX", "LIVE"))
@needs(_FILTERING)
def convert_strictly(text: str, other: bool | int | float) -> bool | int | float:
    """An SQL filter cannot compare a property with FALSE if its text is neither true nor false."""
    if isinstance(other, bool) and bit(text.lower() not in ("true", "false")):
        raise NotComparableError(text)
    converted: bool | int | float = convert_strictly.original(text, other)
    return converted


@bug("sql-fractions-cut-off", sql_expression, "compare", found_by=("READ", "PREFIX", "LIVE"))
@needs(_FILTERING)
def compare_whole_numbers(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """An SQL filter compares only the whole parts of numbers."""
    first, second = (int(value) if isinstance(value, float) else value for value in (left, right))
    bit((first, second) != (left, right))
    order: int = compare_whole_numbers.original(first, second)
    return order


@bug("wrong-sql-accepted", sql_filter, "_parse", found_by=("STATUS",))
@needs(SCENARIOS["operator-changes"].ranges, consuming={"filtered": (True,)})
def parse_anything(text: str) -> SqlExpression:
    """A broker accepts an SQL expression that compares impossible types, and gives its group no message."""
    try:
        return parse_anything.original(text)
    except FilterExpressionError as error:
        if not bit("compatible operands" in str(error)):
            raise
        return parse_anything.original("FALSE")


@bug("changed-filter-keeps-birth", ConsumerFilterManager, "register", found_by=("READ", "LIVE"))
@needs(_REGISTERING)
def register_as_old(
    self: ConsumerFilterManager, topic: str, group: str, expression: str, client_version: int = 0
) -> ConsumerFilterData:
    """After a group changed its expression, the broker trusts bit maps of the earlier one."""
    known = self.find(topic, group)
    born_ms = 0 if known is None else known.born_timestamp_ms
    made = register_as_old.original(self, topic, group, expression, client_version)
    if known is not None and bit(made is not known):
        made.born_timestamp_ms = born_ms
    return made
