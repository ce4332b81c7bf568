"""Java text functions: trim, split and parse numbers like RocketMQ.

Python's functions differ from these Java functions:

    String.trim            removes characters up to U+0020 at both ends, but not U+00A0, U+2003 and U+3000
    String.split           drops empty pieces only at the end
    Integer.parseInt       a sign, then decimal digits of any script of the BMP; no blanks, no `_`
    StringUtils.isBlank    Character.isWhitespace: without U+0085 and the no-break spaces, which Python's isspace has
    String.compareTo       orders by UTF-16 code units: U+FFFD comes after U+1F600

Source: Java SE, String, Integer, Character; Apache Commons, StringUtils.
"""

import re
from unicodedata import category

_UP_TO_SPACE = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"[+-]?\d+")
_DIGITS_MAX = 4_000
"""Maximum number of digits, because Python limits it too. Java allows any number of leading zeros."""
_LAST_OF_BMP = "\uffff"
_SEPARATORS = ("Zs", "Zl", "Zp")
_NO_BREAK = "\u00a0\u2007\u202f"
_CONTROL_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f"


def java_trim(text: str) -> str:
    r"""Trim like `String.trim`.

    >>> java_trim("\t A \u3000 ")
    'A \u3000'
    """
    return text.strip(_UP_TO_SPACE)


def java_split(text: str, separator: str) -> list[str]:
    """Split like `String.split`, but the separator is no pattern.

    >>> java_split("a,,b,,", ","), java_split("", ","), java_split(",", ",")
    (['a', '', 'b'], [''], [])
    """
    pieces = text.split(separator)
    while len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces if pieces != [""] or not text else []


def java_integer(text: str, bits: int) -> int | None:
    """Parse like `Integer.parseInt` (32 bits) or `Long.parseLong` (64 bits). Returns None if Java throws an exception.

    >>> java_integer("+٣", 32), java_integer("1_0", 32), java_integer(" 1", 64), java_integer("2147483648", 32)
    (3, None, None, None)
    """
    if _INTEGER.fullmatch(text) is None or len(text) > _DIGITS_MAX or max(text) > _LAST_OF_BMP:
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def is_java_blank(text: str) -> bool:
    r"""Return whether all characters are white space, like `StringUtils.isBlank`.

    >>> is_java_blank(" \u3000"), is_java_blank("\u00a0"), is_java_blank("")
    (True, False, True)
    """
    return all(one in _CONTROL_BLANKS or (category(one) in _SEPARATORS and one not in _NO_BREAK) for one in text)


def java_order(text: str) -> bytes:
    r"""Return a sort key that orders texts like `String.compareTo`.

    >>> java_order("\U0001F600") < java_order("\uFFFD")
    True
    """
    return text.encode("utf-16-be", "surrogatepass")
