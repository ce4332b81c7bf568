"""Monitoring of a served process: health and metrics over HTTP (docs/broker-monitoring.md), and messages to systemd.

The endpoint starts before the recovery, which may take minutes. A connection has one request, and is closed after
CONNECTION_S_MAX at the latest. systemd gets READY=1, STOPPING=1, and WATCHDOG=1 twice per WatchdogSec while the process
is alive (sd_notify(3)).
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import typer

from ...store.broker.health import HealthCheck
from ...store.broker.metrics import Metric, MetricType
from ...store.broker.operator_log import Emit, warning_line
from ...store.errors import install_command
from ...store.real.sockets import split_address

PREFIX = "tornlog_"
CONNECTION_S_MAX = 10.0
"""Time limit of a connection: an idle or slow client keeps no thread. Prometheus waits 10 s by default."""
CONNECTIONS_MAX = 64
_LOOPBACK = "127.0.0.1"
_US_PER_S = 1_000_000


class Monitored(Protocol):
    """A broker or a name server."""

    def is_alive(self) -> bool:
        """Return whether the process still serves. May take seconds."""

    def checks(self) -> Iterable[HealthCheck]:
        """Return the checks of `/readyz`."""


def monitoring_address(text: str, option: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, or `PORT` for loopback. Raises BadParameter for any other text."""
    try:
        host, port = (_LOOPBACK, int(text)) if text.isascii() and text.isdecimal() else split_address(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected PORT or HOST:PORT, {error}", param_hint=option) from error
    if not 0 <= port <= 65535:
        raise typer.BadParameter(f"expected a port from 0 to 65535, found {port}", param_hint=option)
    return host, port


class _Server(ThreadingMixIn, WSGIServer):
    """A thread per connection, with limits on the number and the duration of connections."""

    daemon_threads = False  # so that `server_close` waits for threads that read figures of the broker

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._lock = threading.Lock()
        self._due: dict[socket.socket, float] = {}
        """Open connection -> monotonic time of its end."""
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # without the look-up of the host's name, which may wait for a name server
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return len(self._due) < CONNECTIONS_MAX

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._due[request] = time.monotonic() + CONNECTION_S_MAX
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._due.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that are due. The server calls this at least twice per second."""
        self.close_connections(time.monotonic())

    def close_connections(self, due: float) -> None:
        with self._lock:
            for connection in [one for one, end in self._due.items() if end <= due]:
                del self._due[connection]  # first: a client that sees the end may connect again at once
                with suppress(OSError):  # the client has closed it
                    connection.shutdown(socket.SHUT_RDWR)  # its thread then closes it

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a client that left is no error
            super().handle_error(request, client_address)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Write no line per request."""


@contextmanager
def monitoring_endpoint(address: tuple[str, int], application: WSGIApplication, option: str) -> Iterator[str]:
    """Yield the URL of the endpoint, without a path. Raises BadParameter if the address is in use."""
    host, port = address
    try:
        server = _Server(host, port)
    except OSError as error:
        raise typer.BadParameter(f"{host}:{port}: {error.strerror}", param_hint=option) from error
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, name="monitoring")
    thread.start()
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}"
    finally:
        server.shutdown()
        server.close_connections(float("inf"))
        server.server_close()
        thread.join()


def health_application(served: Monitored, metrics: WSGIApplication | None = None) -> WSGIApplication:
    """Return the application of the endpoint. `metrics` answers `/metrics`."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics" and metrics is not None:
            return metrics(environ, start_response)
        status, text = HTTPStatus.NOT_FOUND, "the paths are /healthz, /readyz, and with --metrics /metrics\n"
        if path == "/healthz":
            alive = served.is_alive()
            status = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
            text = "alive\n" if alive else "stuck: the task that receives requests makes no progress\n"
        elif path == "/readyz":
            checks = list(served.checks())
            failed = any(check.problem for check in checks)
            status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
            text = "".join(f"{check.name}: {check.problem or 'ok'}\n" for check in checks)
        body = text.encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    return answer


def metrics_application(read: Callable[[], Iterable[Metric]]) -> WSGIApplication:
    """Return an application that answers each request with the metrics that `read` returns, and with the process's own.

    Raises BadParameter if the library is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        from prometheus_client.core import Metric as Family
        from prometheus_client.registry import Collector
    except ModuleNotFoundError as error:
        missing = f"needs prometheus_client: install with {install_command('metrics')}"
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
    ProcessCollector(registry=registry)
    return make_wsgi_app(registry)


def notify_systemd(state: str, emit: Emit) -> None:
    """Send a state such as `READY=1` to systemd, if it started this process with Type=notify."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # a leading @ stands for the zero byte of an abstract address
            sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
    except OSError as error:
        emit(warning_line(f"cannot send {state} to systemd: {address}: {error.strerror}"))


@contextmanager
def systemd_watchdog(served: Monitored, emit: Emit) -> Iterator[None]:
    """During the block, tell systemd twice per WatchdogSec that the process is alive. Otherwise systemd ends it."""
    interval_us = os.environ.get("WATCHDOG_USEC", "")
    if not interval_us.isdecimal():
        yield
        return
    over = threading.Event()

    def report() -> None:
        while not over.wait(int(interval_us) / _US_PER_S / 2):
            if served.is_alive():
                notify_systemd("WATCHDOG=1", emit)

    thread = threading.Thread(target=report, name="watchdog")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
