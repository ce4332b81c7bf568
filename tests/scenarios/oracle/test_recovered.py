"""Recovered content: the first difference of two recoveries."""

import pytest

from tornlog.scenarios.oracle.recovered import Content, ContentDifference, first_difference


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        ({"a": b"123"}, {"a": b"123"}, None),
        ({"a": b"same", "b": b"1234"}, {"a": b"same", "b": b"1x34"}, ContentDifference("b", 1, "32 33 34", "78 33 34")),
        ({"a": b"12"}, {"a": b"1"}, ContentDifference("a", 1, "32", "the end")),
        ({"a": b"1"}, {}, ContentDifference("a", 0, "a file", "no file")),
        ({}, {"a": b"1"}, ContentDifference("a", 0, "no file", "a file")),
    ],
)
def test_the_first_difference_names_file_offset_and_bytes(
    expected: Content, found: Content, difference: ContentDifference | None
) -> None:
    assert first_difference(expected, found) == difference
