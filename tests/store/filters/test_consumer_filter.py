from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.errors import FilterExpressionError
from tornlog.store.filters.bloom_filter import BloomFilter
from tornlog.store.filters.consumer_filter import FORGOTTEN_AFTER_MS, ConsumerFilterManager
from tornlog.store.world import World

Make = Callable[..., Any]


@pytest.fixture
def managed(lab: Make) -> Callable[..., None]:
    """Call a check with a manager and the list whose last element is its time."""

    def call(check: Callable[[ConsumerFilterManager, list[int]], None]) -> None:
        def body(world: World) -> None:
            times = [1_000]
            check(ConsumerFilterManager(world.tasks, lambda: times[-1]), times)

        lab().run(body)

    return call


def test_a_consumer_is_known_by_topic_and_group_with_the_bits_of_both(managed: Make) -> None:
    def check(consumers: ConsumerFilterManager, times: list[int]) -> None:
        data = consumers.register("T", "g", "a > 1")

        assert data.positions == BloomFilter.of().positions("g#T")
        assert (data.map_bytes, data.born_timestamp_ms, data.dead_timestamp_ms) == (14, 1_000, None)
        assert consumers.of_topic("T") == (data,)
        assert consumers.find("T", "g") is data
        assert consumers.find("T", "h") is consumers.find("U", "g") is None
        assert consumers.register("T", "h", "a > 2") in consumers.of_topic("T")

    managed(check)


def test_a_bad_expression_changes_nothing(managed: Make) -> None:
    def check(consumers: ConsumerFilterManager, times: list[int]) -> None:
        data = consumers.register("T", "g", "a > 1")
        with pytest.raises(FilterExpressionError):
            consumers.register("T", "g", "a >", 1)

        assert consumers.of_topic("T") == (data,)

    managed(check)


def test_a_newer_expression_is_born_anew_and_the_old_one_says_nothing_more(managed: Make) -> None:
    def check(consumers: ConsumerFilterManager, times: list[int]) -> None:
        old = consumers.register("T", "g", "a > 1", 1)
        times.append(2_000)
        new = consumers.register("T", "g", "a > 2", 2)

        assert consumers.of_topic("T") == (new,)
        assert new.born_timestamp_ms == 2_000
        assert old.born_timestamp_ms > 1 << 60

    managed(check)


@pytest.mark.parametrize(("expression", "version"), [("a > 1", 2), ("a > 1", 1), ("a > 2", 1), ("a > 2", 0)])
def test_an_expression_that_is_the_same_or_not_newer_changes_nothing(
    managed: Make, expression: str, version: int
) -> None:
    def check(consumers: ConsumerFilterManager, times: list[int]) -> None:
        data = consumers.register("T", "g", "a > 1", 1)
        times.append(2_000)

        assert consumers.register("T", "g", expression, version) is data
        assert data.born_timestamp_ms == 1_000
        assert data.client_version == max(version, 1)

    managed(check)


def test_a_consumer_that_comes_back_soon_goes_on_and_one_that_stays_away_is_forgotten(managed: Make) -> None:
    def check(consumers: ConsumerFilterManager, times: list[int]) -> None:
        back, gone = consumers.register("T", "back", "a > 1"), consumers.register("T", "gone", "a > 1")
        consumers.unregister("back")
        consumers.unregister("gone")
        consumers.unregister("unknown")
        assert back.dead_timestamp_ms == gone.dead_timestamp_ms == 1_000
        times.append(2_000)
        consumers.unregister("gone")
        assert gone.dead_timestamp_ms == 1_000
        assert consumers.of_topic("T") == (
            back,
            gone,
        )  # it may be back soon, and its marks must not be missing

        assert consumers.register("T", "back", "a > 1") is back
        assert back.dead_timestamp_ms is None
        times.append(1_000 + FORGOTTEN_AFTER_MS)
        consumers.register("U", "other", "a > 1")
        assert consumers.of_topic("T") == (back,)

    managed(check)
