import pytest

from tornlog.store.filters.message_filter import TagFilter
from tornlog.store.formats.consume_queue import tags_code


@pytest.mark.parametrize("expression", [None, "", "*", "  ", " * ", "||", " || "])
def test_a_subscription_expression_without_a_tag_matches_every_message(expression: str | None) -> None:
    wanted = TagFilter.parse(expression)

    assert wanted.matches_queue(0)
    assert wanted.matches_queue(tags_code("anything"))


def test_a_tag_filter_matches_hashes_of_either_sign() -> None:
    wanted = TagFilter.parse("TagA|| polygenelubricants")  # the hash of the second is negative

    assert tags_code("polygenelubricants") < 0
    assert wanted.matches_queue(tags_code("TagA"))
    assert wanted.matches_queue(tags_code("polygenelubricants"))
    assert not wanted.matches_queue(tags_code("TagB"))
    assert not wanted.matches_queue(0)


def test_a_tag_filter_reads_only_the_queue_entry_and_matches_unknown_tags() -> None:
    wanted = TagFilter.parse("TagA")

    assert not wanted.reads_records
    assert wanted.matches_record(b"anything")
    assert wanted.matches_queue(None)


def test_two_tags_with_the_same_hash_both_match() -> None:
    assert TagFilter.parse("Aa").matches_queue(tags_code("BB"))


@pytest.mark.parametrize("tag", ["A", "A\u3000", "\u00a0A", "A\u2003"])
def test_non_ascii_spaces_are_part_of_a_tag_as_in_java(tag: str) -> None:
    wanted = TagFilter.parse(f" B ||\t{tag} ")
    for other in ("A", "A\u3000", "\u00a0A", "A\u2003"):
        assert wanted.matches_queue(tags_code(other)) is (other == tag)
