"""Bugs of subscriptions: SQL expressions, and registered filters that change."""

from ....store.errors import FilterExpressionError
from ....store.filters import sql_expression, sql_filter
from ....store.filters.sql_expression import NotComparableError
from ....store.filters.sql_filter import SqlExpression
from ....store.formats.consume_queue import ExtUnit
from ....store.formats.properties import decode_properties
from ....store.formats.scan import ScannedRecord
from ....store.services.consumer_filter import (
    ConsumerFilterData,
    ConsumerFilterManager,
    SqlMessageFilter,
    has_bits,
    set_bits,
)
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


# RocketMQ compares the unit's store time with that of the registration: ConsumerFilterData.isMsgInLive.
@bug("bits-before-registration-trusted", SqlMessageFilter, "matches_queue", found_by=("READ", "LIVE"))
@needs(_REGISTERING)
def matches_any_bits(self: SqlMessageFilter, tags_code: int | None, unit: ExtUnit | None) -> bool:
    """A group that registers its first or another expression misses matching messages from before the registration."""
    consumer = self._consumer
    if consumer is None or unit is None or len(unit.bit_map) != consumer.map_bytes:
        return True
    matches = has_bits(unit.bit_map, consumer.positions)
    bit(not matches and unit.store_timestamp_ms <= consumer.born_timestamp_ms)
    return matches


# Source: own.
@bug("dispatch-keeps-first-expression", ConsumerFilterManager, "bit_map_of", found_by=("READ", "LIVE"))
@needs(_REGISTERING)
def bit_map_of_first(self: ConsumerFilterManager, record: ScannedRecord) -> bytes:
    """After a group changed its expression, dispatch still evaluates the first one, and the group misses messages."""
    firsts = vars(self).setdefault("_firsts", {})
    bit_map = bytearray(self.bloom_filter.map_bytes)
    properties = decode_properties(record.properties.decode(errors="replace"))
    consumers = self.filters_of_topic(record.topic)
    for consumer in consumers:
        expression = firsts.setdefault((consumer.topic, consumer.group), consumer.expression)
        if expression.matches(properties):
            set_bits(bit_map, consumer.positions)
        else:
            bit(consumer.expression.matches(properties))
    return bytes(bit_map) if consumers else b""
