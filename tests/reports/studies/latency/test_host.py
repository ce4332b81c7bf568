from dataclasses import replace

from tornlog.faults.devices.drives import DurationDistribution
from tornlog.faults.devices.storage import MeasuredStorage
from tornlog.reports.studies.latency.host import REFERENCE, STALL_NS_MIN, FileStalls, Stalls
from tornlog.reports.studies.latency.simulated import simulate
from tornlog.reports.studies.latency.traffic import Setup

US = 1_000
HOST = replace(REFERENCE, put=DurationDistribution([20 * US]), put_work_ns=20 * US, dispatch_ns=0, touch_ns=0)


def test_only_a_long_write_counts_as_a_stall() -> None:
    stalls = Stalls()
    for took_ns in (10, STALL_NS_MIN, STALL_NS_MIN - 1):
        stalls.record(took_ns)

    assert (stalls.stores, stalls.took_ns) == (3, {1: STALL_NS_MIN})


def test_stalls_are_replayed_in_their_order() -> None:
    stalls = FileStalls()
    stalls.stalls_of("/s/commitlog/0").record(10)
    stalls.stalls_of("/s/commitlog/0").record(5 * STALL_NS_MIN)
    stalls.stalls_of("/s/consumequeue/T/0/0").record(3 * STALL_NS_MIN)
    again = stalls.from_first_write()

    assert [again.log.next_ns() for _ in range(3)] == [0, 5 * STALL_NS_MIN, 0]
    assert [again.others.next_ns() for _ in range(2)] == [3 * STALL_NS_MIN, 0]


def test_a_stall_delays_its_put_and_the_puts_after_it() -> None:
    stalls = FileStalls()
    stalls.log.took_ns[10] = 5_000 * US
    series = simulate(Setup("async", 1, 2_000.0, 40), HOST, lambda _: MeasuredStorage([US]), stalls=stalls)
    slow = [took for took in series.latencies_ns if took > 20 * US]

    assert max(slow) == 5_020 * US
    assert len(slow) > 3
    assert set(series.latencies_ns) - set(slow) == {20 * US}


def test_a_stall_of_dispatch_delays_puts() -> None:
    stalls = FileStalls()
    stalls.others.took_ns[10] = 5_000 * US
    series = simulate(Setup("async", 1, 2_000.0, 40), HOST, lambda _: MeasuredStorage([US]), stalls=stalls)

    assert 4_000 * US < max(series.latencies_ns) <= 5_020 * US
