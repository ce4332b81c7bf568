from dataclasses import replace

import pytest

from tests.bench.broker import measure_broker_pulls, measure_broker_sends
from tests.bench.workplace import BenchSettings, Workplace
from tornlog.store.config import FlushDiskType

MOMENT = replace(BenchSettings().quick(), seconds=0.2, segment_bytes=8 << 20)


@pytest.mark.parametrize("flush", FlushDiskType)
def test_sends_are_counted_and_timed(flush: FlushDiskType) -> None:
    with Workplace(MOMENT) as place:
        sample = measure_broker_sends(place, flush, connections=2)
    assert sample.rate > 10
    assert sample.latency is not None
    assert 0 < sample.latency.p50_us <= sample.latency.p99_us <= sample.latency.max_us


def test_pulled_messages_are_counted_and_each_pull_is_timed() -> None:
    with Workplace(MOMENT) as place:
        sample = measure_broker_pulls(place, connections=2)
    assert sample.latency is not None
    assert sample.rate > 1_000_000 / sample.latency.p50_us  # more than one message per pull
