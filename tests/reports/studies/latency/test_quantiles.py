from tornlog.reports.studies.latency.quantiles import percentiles_us


def test_percentiles_are_latencies_that_occurred() -> None:
    assert percentiles_us(range(1_000, 1_001_000, 1_000)) == [501.0, 901.0, 991.0, 1_000.0]
    assert percentiles_us([7_000]) == [7.0] * 4
