from dataclasses import replace
from typing import Any

import pytest

from tornlog.faults.devices.pages import PageCacheLimits
from tornlog.reports.quantities import percentiles_us
from tornlog.reports.studies.latency.host import REFERENCE
from tornlog.reports.studies.topics.grid import DEVICES
from tornlog.reports.studies.topics.layouts import (
    LAYOUTS,
    PARTITIONED,
    PULLED_MAX,
    SHARED,
    TopicLayout,
    TopicsSetup,
    pulled_ns,
    put_factor,
)
from tornlog.reports.studies.topics.timed_machine import PageFaultFiles, TimedMachine, run_timed
from tornlog.reports.studies.topics.workload import closed_loop, few_topics_of, open_loop, run_late_consumers
from tornlog.store.formats.message import decode_record

SMALL = PageCacheLimits(dirty_bytes_max=1 << 20)


def run_on(disk: str, setup: TopicsSetup, body: Any) -> Any:
    return run_timed(setup, REFERENCE, DEVICES[disk], lambda machine: body(machine, machine.start()))


def test_only_the_first_write_to_a_mapped_page_takes_the_time_of_a_fault() -> None:
    def body(machine: TimedMachine) -> list[int]:
        machine.files.is_timed = False  # disk and page cache take no time
        mapped = PageFaultFiles(machine.files, machine.processor, 30_000).map("/a", 3 * 4096)
        took_ns = []
        for at, size_bytes in ((0, 10), (10, 10), (4090, 10), (0, 3 * 4096), (0, 3 * 4096)):
            begun_ns = machine.kernel.now_ns
            mapped.store(at, b"x" * size_bytes)
            took_ns.append(machine.kernel.now_ns - begun_ns)
        return took_ns

    setup = TopicsSetup(SHARED, "async", topics=1, puts=1)
    assert run_timed(setup, REFERENCE, DEVICES["hdd"], body) == [30_000, 0, 30_000, 30_000, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_every_record_that_was_put_is_pulled_in_order(layout: str, flush: str) -> None:
    setup = TopicsSetup(layout, flush, topics=5, puts=300, producers=4, memory=SMALL)

    def body(machine: TimedMachine, running: TopicLayout) -> list[list[int]]:
        closed_loop(machine, running)
        machine.settle(running)
        found = []
        for topic in range(5):
            offsets: list[int] = []
            while records := running.pull(topic, len(offsets)):
                assert len(records) <= PULLED_MAX
                for raw in records:
                    record = decode_record(raw, 0, file="", file_offset=0)
                    assert record.topic == f"topic-{topic}"
                    assert len(record.body) == 1024
                    offsets.append(record.queue_offset)
            found.append(offsets)
        return found

    found = run_on("nvme-ssd", setup, body)

    assert [offsets == list(range(len(offsets))) for offsets in found] == [True] * 5
    assert sum(map(len, found)) == pytest.approx(305, abs=300)
    assert min(map(len, found)) > 10


def test_under_sync_flush_puts_share_syncs_in_one_log_but_not_in_many() -> None:
    def rate(layout: str, topics: int) -> float:
        setup = TopicsSetup(layout, "sync", topics, puts=1_000)
        return float(run_on("hdd", setup, closed_loop).puts_per_second)

    assert rate(SHARED, 64) == pytest.approx(rate(SHARED, 1), rel=0.3)
    assert rate(PARTITIONED, 64) < 0.5 * rate(PARTITIONED, 1)
    assert rate(SHARED, 64) > 2 * rate(PARTITIONED, 64)


def test_with_few_topics_the_processor_limits_async_flush() -> None:
    for layout in LAYOUTS:
        sustained = run_on("nvme-ssd", TopicsSetup(layout, "async", 4, puts=2_000, memory=SMALL), closed_loop)
        cost_us = 22 * put_factor(layout, 4)

        assert sustained.puts_per_second == pytest.approx(1e6 / cost_us, rel=0.05)


@pytest.mark.ci
def test_with_full_memory_the_device_limits_the_writers() -> None:
    def rate(**others: Any) -> float:
        setup = TopicsSetup(PARTITIONED, "async", 256, puts=4_000, memory=SMALL)
        return float(run_on("hdd", replace(setup, **others), closed_loop).puts_per_second)

    scattered = rate()
    assert scattered < 3_000
    assert rate(packed=True) > 1.5 * scattered
    assert rate(memory=PageCacheLimits(dirty_bytes_max=4 << 20), puts=16_000) > 1.5 * scattered


def test_arriving_puts_wait_only_for_their_syncs() -> None:
    def median_us(flush: str, disk: str) -> float:
        setup = TopicsSetup(SHARED, flush, 4, puts=200, producers=4)
        return percentiles_us(run_on(disk, setup, lambda machine, layout: open_loop(machine, layout, 50.0)), [0.5])[0]

    assert median_us("async", "hdd") == pytest.approx(19, rel=0.3)
    assert 10_000 < median_us("sync", "hdd") < 60_000
    assert 100 < median_us("sync", "nvme-ssd") < 1_000


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_setup_gives_identical_results(layout: str) -> None:
    def body(machine: TimedMachine, running: TopicLayout) -> Any:
        latencies = list(open_loop(machine, running, 2_000.0))
        machine.settle(running)
        return latencies, run_late_consumers(machine, running, range(16)), machine.kernel.digest()

    setup = TopicsSetup(layout, "async", 16, puts=400, seed=3, memory=SMALL)
    one, other, third = (run_on("sata-ssd", each, body) for each in (setup, setup, replace(setup, seed=4)))

    assert one == other
    assert one != third


def late_consumer_figures(layout: str, topics: int, disk: str, **others: Any) -> Any:
    def body(machine: TimedMachine, running: TopicLayout) -> Any:
        closed_loop(machine, running)
        machine.settle(running)
        return run_late_consumers(machine, running, few_topics_of(topics)), run_late_consumers(
            machine, running, range(topics)
        )

    return run_on(disk, TopicsSetup(layout, "async", topics, puts=4_000, memory=SMALL, **others), body)


def test_consumers_of_few_topics_read_records_of_other_topics_only_in_a_shared_log() -> None:
    shared, _ = late_consumer_figures(SHARED, 64, "sata-ssd")
    partitioned, _ = late_consumer_figures(PARTITIONED, 64, "sata-ssd")

    assert shared.topics_read == partitioned.topics_read == 8
    assert shared.records > 100
    assert shared.read_bytes_per_record > 4 * partitioned.read_bytes_per_record
    assert shared.records_per_second < partitioned.records_per_second / 2
    assert 1_100 < partitioned.read_bytes_per_record < 1_400  # the records, and few other bytes


def test_consumers_of_all_topics_read_each_page_of_the_log_about_once() -> None:
    few, every = late_consumer_figures(SHARED, 16, "nvme-ssd")

    assert every.topics_read == 16
    assert every.records > few.records
    assert 1_100 < every.read_bytes_per_record < 2_500
    assert every.records_per_second == pytest.approx(1e9 / pulled_ns(SHARED), rel=0.1)  # the limit of the processor


def test_without_read_around_page_faults_read_less_and_wait_more() -> None:
    around, _ = late_consumer_figures(SHARED, 64, "sata-ssd")
    exact, _ = late_consumer_figures(SHARED, 64, "sata-ssd", around_faults=False)

    assert exact.read_bytes_per_record < around.read_bytes_per_record
    assert exact.waits_per_record > around.waits_per_record


def test_the_consumed_topics_are_spread_evenly_over_all_topics() -> None:
    assert few_topics_of(3) == [0, 1, 2]
    assert few_topics_of(16) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_costs_grow_with_the_number_of_topics_up_to_a_constant() -> None:
    for layout in LAYOUTS:
        factors = [put_factor(layout, topics) for topics in (1, 4, 64, 256, 1024, 4096, 65_536)]
        assert factors == sorted(factors)
        assert factors[-1] == factors[-2]
    assert put_factor(SHARED, 1) == 1.0
    assert put_factor(PARTITIONED, 1) < 0.6
