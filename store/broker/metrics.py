"""Metrics of a broker for monitoring systems.

Reading metrics never blocks a client request. The name of a metric ends in its unit. A metric ending in `_total` counts
since the process start. At most KEYS_MAX topics and groups have their own values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..formats.delay_level import SCHEDULE_TOPIC
from ..log.segment_queue import try_used_ratio
from ..replication.ha_client import STATES
from ..stats import LATENCY_BOUNDS_MS
from .broker import Broker
from .health import HealthCheck, broker_checks
from .requests import BROKER_VERSION
from .server import RemotingServer
from .statistics import KEYS_MAX

_MS_PER_SECOND = 1_000


class MetricType(Enum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, with one value per combination of labels."""

    name: str
    meaning: str
    kind: MetricType
    labels: tuple[str, ...] = ()
    values: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """Label values -> value. A histogram has cumulative counts by the upper bound of each bucket."""

    def __post_init__(self) -> None:
        size = len(self.labels) + (self.kind is MetricType.HISTOGRAM)
        assert all(len(key) == size for key in self.values), (self.name, self.labels)


def _counter_metric(name: str, meaning: str, value: float) -> Metric:
    return Metric(name, meaning, MetricType.COUNTER, (), {(): value})


def _gauge_metric(name: str, meaning: str, value: float) -> Metric:
    return Metric(name, meaning, MetricType.GAUGE, (), {(): value})


def _labelled_metric(name: str, meaning: str, kind: MetricType, label: str, values: Mapping[str, float]) -> Metric:
    return Metric(name, meaning, kind, (label,), {(key,): value for key, value in values.items()})


def _group_labelled_metric(
    name: str, meaning: str, kind: MetricType, values: Mapping[tuple[str, str], float]
) -> Metric:
    return Metric(name, meaning, kind, ("topic", "group"), dict(values.items()))


def readiness_metric(checks: Iterable[HealthCheck]) -> Metric:
    values = {check.name: float(not check.problem) for check in checks}
    return _labelled_metric("ready", "Whether a check of /readyz passes.", MetricType.GAUGE, "check", values)


def metrics_of(broker: Broker, server: RemotingServer) -> Iterator[Metric]:
    yield readiness_metric(broker_checks(broker, server))
    yield from _store_metrics(broker)
    yield from _delivery_metrics(broker)
    yield from _topic_and_group_metrics(broker)
    yield from _replication_metrics(broker)
    yield from _server_metrics(broker, server)


def _store_metrics(broker: Broker) -> Iterator[Metric]:
    store, stats = broker.own_store, broker.own_store.stats
    end, durable = store.max_phy_offset, store.log.flushed_where.get()
    yield _counter_metric("messages_put_total", "Messages stored.", stats.put_messages_total)
    yield _counter_metric("put_bytes_total", "Bytes of log written for stored messages.", stats.put_bytes_total)
    yield _counter_metric("puts_failed_total", "Failed puts. Their messages are not in the log.", stats.puts_failed)
    yield _latency_histogram(stats.put_latency_counts)
    yield _gauge_metric("log_min_offset_bytes", "Offset at which the log begins.", max(0, store.min_phy_offset))
    yield _gauge_metric("log_max_offset_bytes", "Offset at which the log ends.", end)
    yield _gauge_metric("log_durable_offset_bytes", "Offset up to which the log is durable.", durable)
    yield _gauge_metric("flush_behind_bytes", "Bytes of the log that are not durable yet.", max(0, end - durable))
    yield _gauge_metric(
        "dispatch_behind_bytes", "Bytes of the log that are not dispatched yet.", store.dispatch_behind_bytes
    )
    passed_over = store.dispatch.passed_over_count
    about = "Records that dispatch skipped because of an impossible queue offset."
    yield _counter_metric("dispatch_passed_over_total", about, passed_over)
    yield _gauge_metric("store_refusals", "Bits of the reasons for which the store refuses messages.", store.flags.bits)
    yield _gauge_metric("services_failed", "Services of the store that ended with an error.", len(store.flags.failures))
    yield _gauge_metric(
        "store_start_time_seconds", "Time when the store was opened.", stats.boot_timestamp_ms / _MS_PER_SECOND
    )
    yield _labelled_metric(
        "disk_used_ratio", "Used share of a directory's disk.", MetricType.GAUGE, "directory", _disk_usage(broker)
    )


def _latency_histogram(counts: list[int]) -> Metric:
    bounds = [*(str(ms / _MS_PER_SECOND) for ms in LATENCY_BOUNDS_MS), "+Inf"]
    cumulative: dict[tuple[str, ...], float] = {}
    seen = 0
    for bound, count in zip(bounds, counts, strict=True):
        seen += count
        cumulative[(bound,)] = seen
    return Metric("put_latency_seconds", "Latency of puts.", MetricType.HISTOGRAM, (), cumulative)


def _disk_usage(broker: Broker) -> dict[str, float]:
    config, files = broker.own_store.config, broker.world.files
    paths = (*config.commit_log_directories, config.consume_queue_directory)
    ratios = {path: try_used_ratio(files, path) for path in paths}
    return {path: ratio for path, ratio in ratios.items() if ratio is not None}


def _delivery_metrics(broker: Broker) -> Iterator[Metric]:
    stats = broker.own_store.stats
    pulls = {"found": float(stats.gets_found), "missed": float(stats.gets_missed)}
    yield _labelled_metric("pulls_total", "Pulls with and without messages.", MetricType.COUNTER, "result", pulls)
    yield _counter_metric("messages_given_total", "Messages delivered to consumers.", stats.messages_transferred)
    yield _gauge_metric("held_pulls", "Pulls that wait for messages.", broker.held_pulls.held_count)
    offsets = broker.own_store.schedule.offsets
    delayed = {str(level): float(max(0, _delay_queue_end(broker, level) - at)) for level, at in list(offsets.items())}
    yield _labelled_metric(
        "delayed_messages", "Delayed messages that are not delivered yet, by level.", MetricType.GAUGE, "level", delayed
    )


def _delay_queue_end(broker: Broker, level: int) -> int:
    queue = broker.own_store.queues.find(SCHEDULE_TOPIC, level - 1)
    return 0 if queue is None else queue.max_offset


def _topic_and_group_metrics(broker: Broker) -> Iterator[Metric]:
    totals = list(broker.own_store.stats.totals_by_topic.items())[:KEYS_MAX]
    messages = {topic: float(put.messages) for topic, put in totals}
    size_bytes = {topic: float(put.size_bytes) for topic, put in totals}
    about = "Messages stored in a topic."
    yield _labelled_metric("topic_messages_put_total", about, MetricType.COUNTER, "topic", messages)
    about = "Bytes of log written for the messages of a topic."
    yield _labelled_metric("topic_put_bytes_total", about, MetricType.COUNTER, "topic", size_bytes)
    given = broker.statistics.delivered_totals()
    split = {key: (key.rpartition("@")[0], key.rpartition("@")[2]) for key in given}
    numbers = {split[key]: float(count) for key, (count, _) in given.items()}
    about = "Messages delivered to a group."
    yield _group_labelled_metric("group_messages_given_total", about, MetricType.COUNTER, numbers)
    sizes = {split[key]: float(size) for key, (_, size) in given.items()}
    about = "Bytes of the records delivered to a group."
    yield _group_labelled_metric("group_given_bytes_total", about, MetricType.COUNTER, sizes)
    about = "Messages that a group has not consumed yet."
    yield _group_labelled_metric("group_lag_messages", about, MetricType.GAUGE, _consumer_lag(broker))
    members = {name: float(size) for name, size in broker.consumers.member_count_by_group().items()}
    yield _labelled_metric("group_members", "Connected consumers of a group.", MetricType.GAUGE, "group", members)


def _consumer_lag(broker: Broker) -> dict[tuple[str, str], float]:
    """Return the unconsumed messages per topic and group, without queues that have no offset."""
    lag: dict[tuple[str, str], float] = {}
    for topic, group, offsets in broker.offsets.all_offsets()[:KEYS_MAX]:
        lags = (broker.max_offset(topic, queue_id) - offset for queue_id, offset in offsets.items())
        lag[topic, group] = float(sum(max(0, each) for each in lags))
    return lag


def _replication_metrics(broker: Broker) -> Iterator[Metric]:
    ha, end = broker.ha, broker.own_store.max_phy_offset
    yield _gauge_metric("is_slave", "Whether the broker is a slave.", float(broker.is_slave))
    if ha is not None:
        slaves = ha.connections
        yield _gauge_metric("slaves", "Connected slaves.", len(slaves))
        lags = {each.remote_address: float(end - each.reported_offset) for each in slaves if each.reported_offset >= 0}
        about = "Bytes of the log that a slave has not reported yet."
        yield _labelled_metric("slave_behind_bytes", about, MetricType.GAUGE, "slave", lags)
        if ha.client is not None:
            current = ha.client.state
            states = {state: float(state == current) for state in STATES}
            about = "1 for the current replication state of the slave, else 0."
            yield _labelled_metric("replication_state", about, MetricType.GAUGE, "state", states)
    registered = {each.address: float(each.registered) for each in broker.registrations}
    label = "name_server"
    yield _labelled_metric(
        "registrations_total", "Registrations with a name server.", MetricType.COUNTER, label, registered
    )
    failed = {each.address: float(each.last_error is not None) for each in broker.registrations}
    yield _labelled_metric(
        "registration_failed", "Whether the last registration failed.", MetricType.GAUGE, label, failed
    )


def _server_metrics(broker: Broker, server: RemotingServer) -> Iterator[Metric]:
    counts, connections, limits = server.counts, server.connections, server.connections.limits
    yield _labelled_metric("build_info", "Always 1.", MetricType.GAUGE, "protocol", {str(BROKER_VERSION): 1.0})
    yield _gauge_metric("connections", "Connections of clients.", connections.count)
    yield _counter_metric("connections_accepted_total", "Connections accepted.", counts.accepted)
    ended = {ending.name.lower(): float(count) for ending, count in counts.endings.items()}
    yield _labelled_metric(
        "connections_ended_total", "Connections that have ended.", MetricType.COUNTER, "reason", ended
    )
    yield _counter_metric("accept_failures_total", "Connections that could not be accepted.", counts.accept_failures)
    yield _counter_metric("requests_total", "Requests received.", counts.requests)
    refused = {refusal.name.lower(): float(count) for refusal, count in counts.refusals.items()}
    yield _labelled_metric("requests_refused_total", "Requests refused.", MetricType.COUNTER, "reason", refused)
    yield _gauge_metric("held_bytes", "Bytes held for clients.", connections.held_bytes)
    yield _gauge_metric("held_bytes_max", "Limit of held_bytes (serverHeldBytesMax).", limits.held_bytes_max)
    yield _gauge_metric("connections_max", "Limit of connections (serverConnectionsMax).", limits.connections_max)
    pools, label = list(server.pools), "pool"
    waiting = {pool.name: float(pool.count) for pool in pools}
    yield _labelled_metric("queue_requests", "Requests that wait for a task.", MetricType.GAUGE, label, waiting)
    capacity = {pool.name: float(pool.limits.queue_capacity) for pool in pools}
    yield _labelled_metric("queue_requests_max", "Limit of queue_requests.", MetricType.GAUGE, label, capacity)
    now_ns = broker.world.clock.monotonic_ns()
    waits = {pool.name: pool.head_request_wait_ms(now_ns) / _MS_PER_SECOND for pool in pools}
    yield _labelled_metric(
        "queue_wait_seconds", "Waiting time of the oldest request in a queue.", MetricType.GAUGE, label, waits
    )
