import re
from pathlib import Path

import tornlog.store
from tornlog.store.marks import MARKS, collected, hit

STORE = Path(tornlog.store.__file__).parent


def test_every_mark_has_a_place_in_the_store_and_every_place_a_mark() -> None:
    placed = set()
    for file in STORE.rglob("*.py"):
        placed |= set(re.findall(r'\bhit\("([^"]+)"\)', file.read_text()))
    assert placed == set(MARKS)


def test_a_mark_counts_for_whoever_collects_innermost() -> None:
    hit("index rolls")
    with collected() as outer:
        hit("index rolls")
        with collected() as inner:
            hit("late sync")
        hit("index rolls")
    hit("late sync")

    assert outer == {"index rolls": 2}
    assert inner == {"late sync": 1}
