"""Recovered content: the first difference of two recoveries."""

import pytest

from tornlog.scenarios.oracle.reader import ADDRESS_MAX, ENTRY
from tornlog.scenarios.oracle.recovered import Content, ContentDifference, first_difference, with_replaced_addresses


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


def test_only_the_tags_code_of_an_address_may_differ_after_a_second_recovery() -> None:
    def content(*entries: tuple[int, int, int]) -> Content:
        return {"/queues/T/0/0": b"".join(ENTRY.pack(*entry) for entry in entries)}

    once = content((0, 100, ADDRESS_MAX), (100, 100, 65))
    replaced = content((0, 100, 65), (100, 100, 65))
    assert with_replaced_addresses(once, replaced, "/queues") == replaced
    assert with_replaced_addresses(replaced, once, "/queues") == replaced
    for changed in (content((0, 101, 65), (100, 100, 65)), content((0, 100, 65), (100, 100, 66)), {}):
        assert with_replaced_addresses(once, changed, "/queues") != changed
    assert with_replaced_addresses(once, replaced, "/log") == once
