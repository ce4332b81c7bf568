"""Cuts an SQL expression into tokens. Keywords and names do not mind case, but a property's name keeps it.

Source: RocketMQ SelectorParser.jj, tokens.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from ..errors import FilterExpressionError


class TokenKind(Enum):
    """What a token is."""

    NAME = "a property"
    STRING = "a string"
    INTEGER = "a whole number"
    FLOAT = "a number"
    SYMBOL = "a symbol"
    """A keyword, in capitals, or an operator."""
    END = "the end"


class Token(NamedTuple):
    """One token; text is what it means: a string without its quotes, a keyword in capitals."""

    kind: TokenKind
    text: str
    position: int
    """Of its first character in the expression, from 0."""


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


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, one of kind END last. Raises FilterExpressionError at what is none."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise FilterExpressionError(text, at, "a name, a value or an operator", _excerpt(text, at))
        if match.lastgroup != "SPACE":
            yield _token(TokenKind[match.lastgroup], match[0], at)
        at = match.end()
    yield Token(TokenKind.END, "the end", len(text))


def _token(kind: TokenKind, text: str, at: int) -> Token:
    if kind is TokenKind.STRING:
        return Token(kind, text[1:-1].replace("''", "'"), at)
    if kind is TokenKind.NAME and text.upper() in KEYWORDS:
        return Token(TokenKind.SYMBOL, text.upper(), at)
    return Token(kind, text, at)


def _excerpt(text: str, at: int) -> str:
    return repr(text[at : at + 20])
