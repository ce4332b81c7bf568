r"""Java .properties text: parses the format of a broker.conf.

    key = value     key: value     key value     the first = : or blank ends the key; blanks around it are ignored
    # text          ! text                       a comment; only blanks may precede it
    value \                                      a \ at the end of a line joins the next line without its leading
      continued                                  blanks, even if that looks like a comment
    \t \n \f \r \uXXXX \:                        escapes; \ before any other character yields that character

Lines end in \n, \r or \r\n. Blanks are space, \t and \f. Source: Java SE, java.util.Properties.load.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class PropertiesError(ValueError):
    """An invalid escape."""

    def __init__(self, line: int, expected: str, found: str) -> None:
        super().__init__(f"line {line}: expected {expected}, found {found!r}")
        self.line = line
        self.expected = expected
        self.found = found


class Property(NamedTuple):
    """A key, its value, and the key's line number, from 1."""

    key: str
    value: str
    line: int


def parse_properties(text: str) -> Iterator[Property]:
    """Yield every property, including repeated keys. Raises PropertiesError.

    >>> [list(each) for each in parse_properties("# sizes\\na = 1\\nb:2\\\\\\n  3")]
    [['a', '1', 2], ['b', '23', 3]]
    """
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, line
        end = match.end()
        separator = _SEPARATOR.match(line, end)
        assert separator is not None, line
        yield Property(_unescape(line[:end], number), _unescape(line[separator.end() :], number), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continuation lines, and skip blank lines and comments."""
    lines = iter(enumerate(_LINE_END.split(text), start=1))
    for number, line in lines:
        line = line.lstrip(_BLANKS)
        if line.startswith(("#", "!")):
            continue
        parts = []
        while (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            line = next(lines, (number, ""))[1].lstrip(_BLANKS)
        logical = "".join([*parts, line])
        if logical:
            yield number, logical


def _unescape(text: str, line: int) -> str:
    r"""Resolve escapes. Each \u is a UTF-16 code unit, so two of them can be one character."""
    if "\\" not in text:
        return text

    def resolve(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "u":
            raise PropertiesError(line, "four hexadecimal digits after \\u", text[match.start() :][:8])
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROLS.get(escaped, escaped)

    resolved = _ESCAPE.sub(resolve, text)
    try:
        return resolved.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise PropertiesError(line, "surrogates in pairs", text[:80]) from error
