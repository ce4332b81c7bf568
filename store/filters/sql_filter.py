"""SQL filter: tokenizer and parser of RocketMQ's SQL92 subset over properties.

    a > 5 AND (b IS NULL OR c IN ('x', 'y')) AND NOT (d BETWEEN 1 AND 2.5 OR e = TRUE)

Operators by precedence, lowest first: OR; AND; = <> IS [NOT] NULL; > >= < <= [NOT] BETWEEN, [NOT] IN; + - NOT. As in
RocketMQ, + - NOT apply only to the next value, name or parentheses. Property names are case-sensitive, keywords are
not. Unlike in RocketMQ, text after a complete expression is an error. Source: RocketMQ SelectorParser.jj.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ..errors import FilterExpressionError
from . import sql_expression as sql
from .sql_expression import JavaLong, NotComparableError, SqlNode

KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})

_TOKEN = re.compile(
    r"""
      (?P<SPACE>  [ \t\n\r\f]+ | --[^\n\r]* | /\*.*?\*/ )
    | (?P<FLOAT>  [0-9]+\.[0-9]*(?:E[+-]?[0-9]+)? | \.[0-9]+(?:E[+-]?[0-9]+)? | [0-9]+E[+-]?[0-9]+ )
    | (?P<INTEGER> 0 | [1-9][0-9]*L? )
    | (?P<STRING> '(?:''|[^'])*' )
    | (?P<NAME>   [a-z_$][a-z0-9_$]* )
    | (?P<SYMBOL> <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.ASCII,
)

EXPRESSION_CHARACTERS_MAX = 1 << 16
DEPTH_MAX = 64  # each level of parentheses needs 6 nested calls; Python allows 1,000
_DEPTH = f"at most {DEPTH_MAX} levels of nesting"

_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_DOUBLE_MIN = 5e-324
_DOUBLE_MAX = 1.7976931348623157e308
_ORDERS = ("<", "<=", ">", ">=")
_NAMED = {"TRUE": True, "FALSE": False, "NULL": None}


class TokenKind(Enum):
    """Kind of a token."""

    NAME = "a property"
    STRING = "a string"
    INTEGER = "a whole number"
    FLOAT = "a number"
    SYMBOL = "a symbol"
    """A keyword in capitals, or an operator."""
    END = "the end"


class Token(NamedTuple):
    """A token. Strings have no quotes, and keywords are in capitals."""

    kind: TokenKind
    text: str
    position: int
    """Index of the token's first character."""


def tokens_of(text: str) -> Iterator[Token]:
    """Yield all tokens. The last one has kind END. Raises FilterExpressionError at an invalid character."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise FilterExpressionError(text, at, "a name, a value or an operator", repr(text[at : at + 20]))
        assert match.end() > at, (match.lastgroup, at)  # prevents an endless loop
        if match.lastgroup != "SPACE":
            yield _make_token(TokenKind[match.lastgroup], match[0], at)
        at = match.end()
    yield Token(TokenKind.END, "the end", len(text))


def _make_token(kind: TokenKind, text: str, at: int) -> Token:
    if kind is TokenKind.STRING:
        return Token(kind, text[1:-1].replace("''", "'"), at)
    if kind is TokenKind.NAME and text.upper() in KEYWORDS:
        return Token(TokenKind.SYMBOL, text.upper(), at)
    return Token(kind, text, at)


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """A parsed expression."""

    text: str
    root: SqlNode

    @classmethod
    def parse(cls, text: str) -> "SqlExpression":
        """Parse an expression. Raises FilterExpressionError with the position of the error."""
        return _parse(text)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether the result is True. False and unknown do not match."""
        try:
            return self.root.evaluate(properties) is True
        except NotComparableError:
            return False


@lru_cache(maxsize=256)
def _parse(text: str) -> SqlExpression:
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        expected = f"at most {EXPRESSION_CHARACTERS_MAX} characters"
        raise FilterExpressionError(text[:40], 0, expected, str(len(text)))
    return SqlExpression(text, _Parser(text).parse())


class _Parser:
    """Recursive-descent parser that looks one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._next = next(self._tokens)
        self._level = 0

    def parse(self) -> SqlNode:
        root = self._build_at_token(lambda: sql.condition_node(self._parse_or()))
        if self._next.kind is not TokenKind.END:
            raise self._unexpected_error("an operator or the end")
        assert self._level == 0, self._level
        return root

    # -- tokens ------------------------------------------------------------------------------------

    def _take_token(self) -> Token:
        token = self._next
        if token.kind is not TokenKind.END:
            self._next = next(self._tokens)
        return token

    def _take_if_any(self, *symbols: str) -> str | None:
        if self._next.kind is TokenKind.SYMBOL and self._next.text in symbols:
            return self._take_token().text
        return None

    def _require_symbol(self, symbol: str) -> None:
        if self._take_if_any(symbol) is None:
            raise self._unexpected_error(symbol)

    def _unexpected_error(self, expected: str, found: str | None = None) -> FilterExpressionError:
        """Create an error at the next token. The message contains `found`, or else this token."""
        found = self._next.text if found is None else found
        return FilterExpressionError(self._text, self._next.position, expected, found)

    def _build_at_token(self, build: Callable[[], SqlNode]) -> SqlNode:
        """Call `build`. A ValueError becomes an error at the next token."""
        try:
            part = build()
        except ValueError as error:
            raise self._unexpected_error("compatible operands", str(error)) from error
        if part.depth > DEPTH_MAX:
            raise self._unexpected_error(_DEPTH, "more")
        return part

    # -- levels, from weak to strong ---------------------------------------------------------------

    def _parse_or(self) -> SqlNode:
        parts = [self._parse_and()]
        while self._take_if_any("OR"):
            parts.append(self._parse_and())
        return parts[0] if len(parts) == 1 else self._build_at_token(lambda: sql.disjunction(parts))

    def _parse_and(self) -> SqlNode:
        parts = [self._parse_equality()]
        while self._take_if_any("AND"):
            parts.append(self._parse_equality())
        return parts[0] if len(parts) == 1 else self._build_at_token(lambda: sql.conjunction(parts))

    def _parse_equality(self) -> SqlNode:
        left = self._parse_comparison()
        while symbol := self._take_if_any("=", "<>", "IS"):
            left = self._parse_is_null(left) if symbol == "IS" else self._parse_equal_operand(left, symbol)
        return left

    def _parse_is_null(self, left: SqlNode) -> SqlNode:
        negated = self._take_if_any("NOT") is not None
        self._require_symbol("NULL")
        null = sql.is_null_node(left)
        return self._build_at_token(lambda: sql.negation_node(null) if negated else null)

    def _parse_equal_operand(self, left: SqlNode, symbol: str) -> SqlNode:
        right = self._parse_comparison()
        equal = self._build_at_token(lambda: sql.equality_node(left, right))
        return self._build_at_token(lambda: sql.negation_node(equal)) if symbol == "<>" else equal

    def _parse_comparison(self) -> SqlNode:
        left = self._parse_unary()
        while symbol := self._take_if_any(*_ORDERS, "BETWEEN", "IN", "NOT"):
            left = self._parse_compared_operand(left, symbol)
        return left

    def _parse_compared_operand(self, left: SqlNode, symbol: str) -> SqlNode:
        if symbol in _ORDERS:
            right = self._parse_unary()
            return self._build_at_token(lambda: sql.comparison_node(left, symbol, right))
        negated = symbol == "NOT"
        if negated:
            found = self._take_if_any("BETWEEN", "IN")
            if found is None:
                raise self._unexpected_error("BETWEEN or IN")
            symbol = found
        if symbol == "IN":
            words = self._parse_words()
            return self._build_at_token(lambda: sql.membership_node(left, words, negated=negated))
        low = self._parse_unary()
        self._require_symbol("AND")
        high = self._parse_unary()
        join = sql.not_between_node if negated else sql.between_node
        return self._build_at_token(lambda: join(left, low, high))

    def _parse_words(self) -> list[str]:
        self._require_symbol("(")
        words = [self._parse_word()]
        while self._take_if_any(","):
            words.append(self._parse_word())
        self._require_symbol(")")
        return words

    def _parse_word(self) -> str:
        if self._next.kind is not TokenKind.STRING:
            raise self._unexpected_error(TokenKind.STRING.value)
        return self._take_token().text

    def _parse_unary(self) -> SqlNode:
        self._level += 1
        if self._level > DEPTH_MAX:
            raise self._unexpected_error(_DEPTH, "more")
        symbol = self._take_if_any("+", "-", "NOT")
        if symbol is None:
            part = self._parse_primary()
        else:
            operand = self._parse_unary()
            join = {"+": lambda it: it, "-": sql.minus_node, "NOT": sql.negation_node}[symbol]
            part = self._build_at_token(lambda: join(operand))
        self._level -= 1
        return part

    def _parse_primary(self) -> SqlNode:
        if self._take_if_any("("):
            inner = self._parse_or()
            self._require_symbol(")")
            return inner
        if named := self._take_if_any(*_NAMED):
            return sql.constant_node(_NAMED[named])
        token = self._next
        if token.kind is TokenKind.NAME:
            self._take_token()
            return sql.property_node(token.text)
        if token.kind in (TokenKind.STRING, TokenKind.INTEGER, TokenKind.FLOAT):
            part = self._parse_constant(token)
            self._take_token()
            return part
        raise self._unexpected_error("a property, a value or (")

    def _parse_constant(self, token: Token) -> SqlNode:
        if token.kind is TokenKind.STRING:
            return sql.constant_node(token.text)
        if token.kind is TokenKind.FLOAT:
            number = float(token.text)
            # Like ConstantExpression.createFloat. Double.MIN_VALUE is above 0, so 0.0 is refused.
            if not _DOUBLE_MIN <= number <= _DOUBLE_MAX:
                raise self._unexpected_error("a positive number in the range of Java's double")
            return sql.constant_node(number)
        digits = token.text.rstrip("lL")
        # The length is checked first, because parsing takes quadratic time.
        if len(digits) > len(str(_LONG_MAX)) or int(digits) > _LONG_MAX:
            raise self._unexpected_error(f"a whole number up to {_LONG_MAX}")
        whole = int(digits)
        return sql.constant_node(whole if whole <= _INT_MAX else JavaLong(whole))
