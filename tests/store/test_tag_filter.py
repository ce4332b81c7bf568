import pytest

from tornlog.store.formats.consume_queue import tags_code
from tornlog.store.tag_filter import TagFilter


@pytest.mark.parametrize("expression", [None, "", "*", "  ", " * ", "||", " || "])
def test_an_expression_without_a_tag_lets_everything_pass(expression: str | None) -> None:
    wanted = TagFilter.parse(expression)

    assert wanted.matches(0)
    assert wanted.matches(tags_code("anything"))


def test_an_expression_lets_its_tags_pass_whatever_their_sign() -> None:
    wanted = TagFilter.parse("TagA|| polygenelubricants")  # the hash of the second is negative

    assert tags_code("polygenelubricants") < 0
    assert wanted.matches(tags_code("TagA"))
    assert wanted.matches(tags_code("polygenelubricants"))
    assert not wanted.matches(tags_code("TagB"))
    assert not wanted.matches(0)


def test_two_tags_with_one_hash_both_pass() -> None:
    assert TagFilter.parse("Aa").matches(tags_code("BB"))
