from itertools import pairwise

from tornlog.faults.devices.read_ahead import ReadAhead


def read(state: ReadAhead, pages: range, cached: set[int]) -> list[range]:
    """Let a reader go through pages; return what is read."""
    found = []
    for page in pages:
        wanted = state.hit(page) if page in cached else state.miss(page, 1)
        state.passed(page)
        if wanted:
            found.append(wanted)
            cached.update(wanted)
    return found


def test_the_window_doubles_as_long_as_the_reader_goes_on() -> None:
    windows = read(ReadAhead(), range(200), set())

    assert [len(window) for window in windows] == [4, 8, 16, *[32] * 7]
    assert [(left.stop, right.start) for left, right in pairwise(windows)] == [
        (window.stop, window.stop) for window in windows[:-1]
    ]


def test_only_the_first_of_a_sequence_is_waited_for() -> None:
    cached: set[int] = set()
    state = ReadAhead()
    missed = 0
    for page in range(500):
        missed += page not in cached
        read(state, range(page, page + 1), cached)

    assert missed == 1


def test_a_read_elsewhere_gets_what_it_asks_for_and_resets_the_window() -> None:
    state, cached = ReadAhead(), set[int]()
    read(state, range(100), cached)

    assert state.window == 32
    assert state.miss(5_000, 2) == range(5_000, 5_002)
    assert state.window == 0
    state.passed(5_001)
    assert state.miss(5_002, 1) == range(5_002, 5_006)  # small again


def test_a_reader_who_skips_less_than_a_window_is_still_in_sequence() -> None:
    cached: set[int] = set()
    windows = read(ReadAhead(), range(0, 400, 3), cached)

    assert len(windows[-1]) == 32
    assert set(range(0, 400, 3)) <= cached
    assert len(windows) < 20


def test_what_is_read_through_a_map_is_read_around_a_fault() -> None:
    state = ReadAhead(around=True)
    state.passed(7)

    assert state.miss(1_000, 1) == range(984, 1_016)
    assert state.miss(5, 1) == range(21)
    assert ReadAhead(64, around=True).miss(1_000, 1) == range(968, 1_032)


def test_the_window_has_a_limit_of_its_own() -> None:
    windows = read(ReadAhead(256), range(2_000), set())

    assert max(len(window) for window in windows) == 256
