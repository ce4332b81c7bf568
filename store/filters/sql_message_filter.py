"""A pull with an SQL expression: the message's bit map may rule it out, else its properties decide.

Source: RocketMQ ExpressionMessageFilter.
"""

from collections.abc import Mapping

from ..errors import CorruptFileError
from ..formats.consume_queue_ext import ExtUnit
from ..formats.message import check_record
from ..formats.properties import decode_properties
from .bloom_filter import has_bits
from .consumer_filter import ConsumerFilterData
from .sql_filter import SqlExpression


class SqlMessageFilter:
    """One consumer's expression; with what it has registered, messages that it does not want are passed over unread."""

    def __init__(self, expression: SqlExpression, consumer: ConsumerFilterData | None = None) -> None:
        assert consumer is None or consumer.expression == expression, "bit maps speak of the registered one"
        self._expression = expression
        self._consumer = consumer

    @classmethod
    def of_consumer(cls, consumer: ConsumerFilterData) -> "SqlMessageFilter":
        """Return the filter of a registered consumer."""
        return cls(consumer.expression, consumer)

    @classmethod
    def parse(cls, expression: str) -> "SqlMessageFilter":
        """Return the filter of an expression that nobody has registered. Raises FilterExpressionError."""
        return cls(SqlExpression.parse(expression))

    @property
    def reads_records(self) -> bool:
        """Return True: bit maps can only rule out."""
        return True

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return False only if the message was dispatched with the expression known and did not match it."""
        consumer = self._consumer
        if consumer is None or unit is None:
            return True
        if unit.store_timestamp_ms <= consumer.born_timestamp_ms or len(unit.bit_map) != consumer.map_bytes:
            return True
        return has_bits(unit.bit_map, consumer.positions)

    def matches_record(self, raw: bytes) -> bool:
        """Return whether the expression is true of the record's properties; one that cannot be read has none."""
        try:
            bounds = check_record(raw, 0, len(raw), file="commitlog", file_offset=0, check_crc=False)
        except CorruptFileError:
            return self._expression.matches({})
        text = raw[bounds.properties_at : bounds.end].decode(errors="replace")
        return self._expression.matches(decode_properties(text))

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the expression is true of these properties."""
        return self._expression.matches(properties)
