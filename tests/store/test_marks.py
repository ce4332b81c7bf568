import re
from pathlib import Path

import pytest

import tornlog.store
from tornlog.store.marks import FORCIBLE, MARKS, collected, forced, forces, hit

STORE = Path(tornlog.store.__file__).parent


def test_every_mark_is_hit_in_the_store_and_every_hit_names_a_mark() -> None:
    placed = set()
    for file in STORE.rglob("*.py"):
        placed |= set(re.findall(r'\bhit\("([^"]+)"\)', file.read_text()))
    assert placed == set(MARKS)


def test_a_mark_counts_for_the_innermost_collector() -> None:
    hit("index rolls")
    with collected() as outer:
        hit("index rolls")
        with collected() as inner:
            hit("late sync")
        hit("index rolls")
    hit("late sync")
    assert outer == {"index rolls": 2}
    assert inner == {"late sync": 1}


def test_a_branch_is_forced_by_the_innermost_block_and_only_inside_it() -> None:
    asked: list[str] = []

    def decide(name: str) -> bool:
        asked.append(name)
        return True

    assert not forces("no buffer")
    with forced(lambda name: False), forced(decide):
        assert forces("no buffer")
    assert not forces("no buffer")
    assert asked == ["no buffer"]


def test_only_marks_that_exist_can_be_forced() -> None:
    assert set(FORCIBLE) <= set(MARKS)
    with pytest.raises(AssertionError):
        forces("late sync")
