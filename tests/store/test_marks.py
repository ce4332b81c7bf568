import re
from pathlib import Path

import pytest

import tornlog.store
from tornlog.store.marks import FORCIBLE, MARKS, count_mark, is_forced, marks_collected, marks_forced

STORE = Path(tornlog.store.__file__).parent


def test_every_mark_is_used_in_the_store_and_every_used_mark_is_declared() -> None:
    placed = set()
    for file in STORE.rglob("*.py"):
        placed |= set(re.findall(r'\bcount_mark\("([^"]+)"\)', file.read_text()))
    assert placed == set(MARKS)


def test_a_mark_is_counted_by_the_innermost_collector() -> None:
    count_mark("index rolls")
    with marks_collected() as outer:
        count_mark("index rolls")
        with marks_collected() as inner:
            count_mark("sync after put timeout")
        count_mark("index rolls")
    count_mark("sync after put timeout")
    assert outer == {"index rolls": 2}
    assert inner == {"sync after put timeout": 1}


def test_a_branch_is_forced_by_the_innermost_block_and_only_inside_it() -> None:
    asked: list[str] = []

    def decide(name: str) -> bool:
        asked.append(name)
        return True

    assert not is_forced("no buffer")
    with marks_forced(lambda name: False), marks_forced(decide):
        assert is_forced("no buffer")
    assert not is_forced("no buffer")
    assert asked == ["no buffer"]


def test_only_declared_marks_can_be_forced() -> None:
    assert set(FORCIBLE) <= set(MARKS)
    with pytest.raises(AssertionError):
        is_forced("sync after put timeout")
