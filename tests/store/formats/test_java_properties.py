import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.formats.java_properties import PropertiesError, Property, parse_properties


def parsed(text: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in parse_properties(text)]


@pytest.mark.parametrize(
    "line", ["key=value", "key:value", "key value", "key = value", " \t\fkey\t:\tvalue", "key\fvalue", "key  =value"]
)
def test_the_first_separator_ends_the_key_and_blanks_around_it_are_ignored(line: str) -> None:
    assert parsed(line) == [("key", "value")]


def test_only_one_separator_after_the_key_is_removed() -> None:
    assert parsed("a==b\na =:b\na  b = c") == [("a", "=b"), ("a", ":b"), ("a", "b = c")]


def test_blanks_after_a_value_belong_to_it() -> None:
    assert parsed("a = b \t") == [("a", "b \t")]


def test_a_key_may_have_an_empty_value() -> None:
    assert parsed("a\nb=\n=c") == [("a", ""), ("b", ""), ("", "c")]


def test_comments_and_blank_lines_are_skipped_but_counted_as_lines() -> None:
    text = "# a = 1\n\n  ! b = 2 \\\n \t\nc = 3\n"

    assert list(parse_properties(text)) == [Property("c", "3", 5)]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_only_javas_line_endings_end_a_line(end: str) -> None:
    assert list(parse_properties(f"a=1{end}{end}b=\v\x1c\x85\u2028")) == [
        Property("a", "1", 1),
        Property("b", "\v\x1c\x85\u2028", 3),
    ]


def test_a_line_continues_after_an_odd_number_of_backslashes() -> None:
    assert parsed("a = 1, \\\n   2, \\\r\n\t3\\\\\nb = 4") == [("a", "1, 2, 3\\"), ("b", "4")]


def test_a_continuation_line_may_look_like_a_comment_or_be_blank_or_missing() -> None:
    assert parsed("a = 1\\\n# 2") == [("a", "1# 2")]
    assert parsed("a = 1\\\n\nb = 2") == [("a", "1"), ("b", "2")]
    assert parsed("a = 1\\") == [("a", "1")]
    assert parsed("\\\n\n# no\nb = 2") == [("b", "2")]


def test_escapes_are_resolved_in_keys_and_values() -> None:
    assert parsed(r"a\ b\:c\=d = \t\n\f\r\z\\ \= \u00e4\u4E2D") == [("a b:c=d", "\t\n\f\rz\\ = \u00e4\u4e2d")]


def test_two_escaped_surrogates_form_one_character() -> None:
    assert parsed(r"a = \ud83d\ude00") == [("a", "\U0001f600")]


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        (r"a = \u12", 1, "four hexadecimal digits after \\u", r"\u12"),
        ("# no\n" + r"\uzzzz = 1", 2, "four hexadecimal digits after \\u", r"\uzzzz"),
        (r"a = \ud83d", 1, "surrogates in pairs", r"\ud83d"),
    ],
)
def test_an_invalid_escape_is_reported_with_its_line(text: str, line: int, expected: str, found: str) -> None:
    with pytest.raises(PropertiesError) as caught:
        list(parse_properties(text))

    assert (caught.value.line, caught.value.expected) == (line, expected)
    assert caught.value.found.startswith(found)


def escaped(text: str) -> str:
    """Escape text like Java's Properties.store."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


@given(st.lists(st.tuples(st.text(min_size=1), st.text())))
def test_escaped_properties_survive_parsing(properties: list[tuple[str, str]]) -> None:
    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in properties)

    assert parsed(text) == properties


@given(st.text(alphabet=st.sampled_from("ab=: \t\f\\u0dD8#!\r\n")))
def test_any_text_is_parsed_or_has_an_invalid_escape(text: str) -> None:
    try:
        found = list(parse_properties(text))
    except PropertiesError:
        assert "\\u" in text
    else:
        assert [one.line for one in found] == sorted({one.line for one in found})
