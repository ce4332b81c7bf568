"""Java's text functions. The expected values were derived from the sources of Java SE 8."""

import pytest

from tornlog.store.formats.java_text import is_java_blank, java_integer, java_order, java_split, java_trim


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        ("", ""),
        (" \t\r\n\x00\x1fA\x20", "A"),
        ("A\u3000", "A\u3000"),
        ("\u00a0A", "\u00a0A"),
        ("A\u2003 ", "A\u2003"),
        ("\x85A\x7f", "\x85A\x7f"),
    ],
)
def test_java_trim_removes_characters_only_up_to_u_0020(text: str, trimmed: str) -> None:
    assert java_trim(text) == trimmed


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("", [""]), (",", []), (",,", []), ("a", ["a"]), ("a,", ["a"]), (",a", ["", "a"]), ("a,,b,,", ["a", "", "b"])],
)
def test_java_split_drops_empty_pieces_only_at_the_end(text: str, pieces: list[str]) -> None:
    assert java_split(text, ",") == pieces


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("\u0663", 3),
        ("\uff11\uff12", 12),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        *((text, None) for text in ("", "+", "-", "+-7", " 7", "7 ", "1_0", "1.0", "0x7", "7L", "²", "½")),
        ("\U0001d7d7", None),
        ("2147483648", None),
        ("-2147483649", None),
    ],
)
def test_java_integer_parses_like_parse_int(text: str, number: int | None) -> None:
    assert java_integer(text, 32) == number


def test_java_integer_with_64_bits_has_the_range_of_a_long() -> None:
    assert java_integer("-9223372036854775808", 64) == -(2**63)
    assert java_integer("9223372036854775808", 64) is None


@pytest.mark.parametrize("text", ["", " ", "\t\n\v\f\r", "\x1c\x1d\x1e\x1f", "\u3000\u2003", "\u2028\u2029"])
def test_white_space_alone_is_blank_in_java(text: str) -> None:
    assert is_java_blank(text)


@pytest.mark.parametrize("text", ["a", " a ", "\u00a0", "\u2007", "\u202f", "\x85", "\x00", "\u200b"])
def test_a_no_break_space_is_not_blank_in_java(text: str) -> None:
    assert not is_java_blank(text)


def test_java_order_sorts_by_utf_16_code_units() -> None:
    assert sorted(["\ufffd", "\U0001f600", "\ud800", "a"], key=java_order) == ["a", "\ud800", "\U0001f600", "\ufffd"]
