"""Metrics endpoint: serves OpenMetrics or Prometheus text over HTTP.

The library prometheus_client, from the extra `metrics`, writes the text and serves it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import typer

from ...store.broker.metrics import Metric, MetricType
from ...store.errors import install_command
from ...store.real.sockets import split_address

PREFIX = "tornlog_"
_LOOPBACK = "127.0.0.1"


def metrics_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, or `PORT` for loopback. Raises BadParameter for any other text."""
    try:
        host, port = (_LOOPBACK, int(text)) if text.isascii() and text.isdecimal() else split_address(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected PORT or HOST:PORT, {error}", param_hint="--metrics") from error
    if not 0 <= port <= 65535:
        raise typer.BadParameter(f"expected a port from 0 to 65535, found {port}", param_hint="--metrics")
    return host, port


@contextmanager
def metrics_endpoint(host: str, port: int, read: Callable[[], Iterable[Metric]]) -> Iterator[str]:
    """Yield the URL. During the block, answer each request with the metrics that `read` returns.

    Raises BadParameter if the address is in use or the library is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        from prometheus_client.core import Metric as Family
        from prometheus_client.registry import Collector
    except ModuleNotFoundError as error:
        missing = f"needs prometheus_client, which is not installed: {install_command('metrics')} has it"
        raise typer.BadParameter(missing, param_hint="--metrics") from error

    def family_of(metric: Metric) -> Family:
        name = f"{PREFIX}{metric.name}"
        if metric.kind is MetricType.HISTOGRAM:
            buckets = [(bound, value) for (bound,), value in metric.values.items()]
            return HistogramMetricFamily(name, metric.meaning, buckets=buckets, sum_value=None)
        kind = CounterMetricFamily if metric.kind is MetricType.COUNTER else GaugeMetricFamily
        family = kind(name, metric.meaning, labels=metric.labels)
        for labels, value in metric.values.items():
            family.add_metric(labels, value)
        return family

    class Figures(Collector):
        """Reads the metrics at each request."""

        def collect(self) -> Iterator[Family]:
            return map(family_of, read())

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise typer.BadParameter(f"{host}:{port}: {error.strerror}", param_hint="--metrics") from error
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
