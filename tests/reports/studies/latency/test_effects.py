from tornlog.reports.studies.latency.effects import group_commit, rollover, slow_syncs
from tornlog.reports.studies.latency.quantiles import percentiles_us


def test_group_commit_carries_more_the_more_ask() -> None:
    alone, many = group_commit(["sata-ssd"], [1, 16], 200)

    assert (alone.producers, many.producers) == (1, 16)
    assert 0.95 < alone.puts_per_sync <= 1.0
    assert many.puts_per_sync > 4
    assert many.puts_per_second > 4 * alone.puts_per_second


def test_a_segment_made_when_it_is_needed_stalls_the_put_that_needs_it() -> None:
    slowest_us = {one.name: max(one.series.latencies_ns) / 1_000 for one in rollover("hdd", 800)}

    assert slowest_us["made when needed"] > 10_000
    assert slowest_us["made ahead"] < 2_000
    assert slowest_us["made and warmed ahead"] < 2_000


def test_a_slow_sync_stalls_those_who_wait_for_it() -> None:
    p99_us = {
        one.name: percentiles_us(one.series.latencies_ns, [0.99])[0] for one in slow_syncs("sata-ssd", 800)
    }

    assert p99_us["sync, 1 % of syncs slow"] > 3 * p99_us["sync, all as usual"]
    assert p99_us["async, 1 % of syncs slow"] == p99_us["async, all as usual"]
