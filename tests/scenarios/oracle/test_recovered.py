"""Recovered content: the first difference of two recoveries."""

import pytest

from tornlog.scenarios.oracle.reader import ADDRESS_MAX, BLANK_ENTRY_SIZE, ENTRY
from tornlog.scenarios.oracle.recovered import (
    Content,
    ContentDifference,
    first_difference,
    with_blanks_for_zeros,
    with_replaced_addresses,
)


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


def content(*entries: tuple[int, int, int]) -> Content:
    return {"/queues/T/0/0": b"".join(ENTRY.pack(*entry) for entry in entries)}


def test_only_entries_of_zeros_may_become_blank_in_a_second_recovery() -> None:
    zeros, blank, entry = (0, 0, 0), (0, BLANK_ENTRY_SIZE, 0), (0, 100, 65)
    once, twice = content(entry, zeros, zeros), content(entry, blank, zeros)
    assert with_blanks_for_zeros(once, twice, "/queues") == twice
    assert with_blanks_for_zeros(twice, once, "/queues") == twice
    assert with_blanks_for_zeros(once, content(blank, blank, zeros), "/queues") == twice
    assert with_blanks_for_zeros(once, content(entry), "/queues") == once
    assert with_blanks_for_zeros(once, twice, "/log") == once


def test_only_the_tags_code_of_an_address_may_differ_after_a_second_recovery() -> None:
    once = content((0, 100, ADDRESS_MAX), (100, 100, 65))
    replaced = content((0, 100, 65), (100, 100, 65))
    assert with_replaced_addresses(once, replaced, "/queues") == replaced
    assert with_replaced_addresses(replaced, once, "/queues") == replaced
    for changed in (content((0, 101, 65), (100, 100, 65)), content((0, 100, 65), (100, 100, 66)), {}):
        assert with_replaced_addresses(once, changed, "/queues") != changed
    assert with_replaced_addresses(once, replaced, "/log") == once
