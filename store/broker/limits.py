"""Server limits: bounds on the resources that clients may use.

Only the defaults of queues, queue waits and idle time are RocketMQ's. The server has fewer tasks than RocketMQ, because
more tasks do not speed up requests that only compute.
Source: RocketMQ BrokerConfig, NettyServerConfig, BrokerFastFailure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import KIB, MIB, ConfigError
from ..network import ListenOptions
from .requests import INT_MAX, LONG_MAX
from .router import Pool


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Limits of one kind of request."""

    tasks: int
    queue_capacity: int
    """The server answers further requests at once with SYSTEM_BUSY."""
    wait_ms_max: int | None = None
    """After this time in the queue the server answers a request with SYSTEM_BUSY; None: no limit."""
    pipelined_tasks: int | None = None
    """Maximum number of tasks for clients that send requests before they read answers.

    None: half of all tasks.
    """
    of_one_host_tasks: int | None = None
    """Maximum number of tasks that serve one host; None: no limit. Set if requests await other clients' answers."""

    @property
    def max_pipelined_tasks(self) -> int:
        wanted = self.tasks // 2 if self.pipelined_tasks is None else self.pipelined_tasks
        limit = max(1, min(wanted, self.tasks))
        assert limit <= self.tasks, (limit, self.tasks)
        return limit


_COMPUTING_TASKS = 2
"""One task computes while the other sends its answer."""

POOL_LIMITS: Mapping[Pool, PoolLimits] = {
    Pool.SEND_MESSAGE: PoolLimits(4, 10_000, 200, _COMPUTING_TASKS),
    Pool.PULL_MESSAGE: PoolLimits(8, 100_000, 5_000, _COMPUTING_TASKS),
    Pool.REPLY_MESSAGE: PoolLimits(2, 10_000),
    Pool.QUERY_MESSAGE: PoolLimits(4, 20_000),
    Pool.CLIENT_MANAGE: PoolLimits(2, 1_000_000),
    Pool.CONSUMER_MANAGE: PoolLimits(4, 1_000_000),
    Pool.HEARTBEAT: PoolLimits(2, 50_000, 31_000),
    Pool.END_TRANSACTION: PoolLimits(4, 100_000, 3_000),
    Pool.ADMIN: PoolLimits(4, 10_000, of_one_host_tasks=2),
}
assert POOL_LIMITS.keys() == set(Pool)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of requests and connections. Byte counts are frame sizes."""

    pools: Mapping[Pool, PoolLimits] = field(default_factory=lambda: POOL_LIMITS)
    connections_max: int = 16_384
    connections_per_host_max: int = 12_288
    """Lower than `connections_max`, so that one host cannot use all connections."""
    idle_ms_max: int = 120_000
    """The server closes a connection without traffic for this long."""
    frame_ms_max: int = 60_000
    """Time to complete a frame."""
    output_ms_max: int = 30_000
    """The server closes a connection if the client reads no byte of buffered output for this long."""
    output_bytes_max: int = 16 * MIB
    """The server closes a connection with more unread output."""
    output_pause_bytes: int = 256 * KIB
    """The server stops reading from a client with more unread output."""
    requests_bytes_max: int = 32 * MIB
    """The server stops reading from a client with more bytes of pending requests."""
    request_bytes_least: int = 2 * MIB
    """Smaller pending requests count as this many bytes, because their answers may be large."""
    requests_of_host_bytes_max: int = 128 * MIB
    """Maximum bytes of pending requests per host.

    The busy connections of a host have equal shares, of at least one request each.
    """
    held_bytes_max: int = 512 * MIB
    """Maximum bytes held for all clients. Above it, the server closes the slowest clients and refuses requests."""

    sockets: ListenOptions = field(default_factory=ListenOptions)

    def with_pool(self, pool: Pool, limits: PoolLimits) -> "ServerLimits":
        return replace(self, pools={**self.pools, pool: limits})


_POOL_KEYS: Mapping[Pool, tuple[str, str | None]] = {
    Pool.SEND_MESSAGE: ("sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity"),
    Pool.PULL_MESSAGE: ("pullMessageThreadPoolNums", "pullThreadPoolQueueCapacity"),
    Pool.REPLY_MESSAGE: ("processReplyMessageThreadPoolNums", "replyThreadPoolQueueCapacity"),
    Pool.QUERY_MESSAGE: ("queryMessageThreadPoolNums", "queryThreadPoolQueueCapacity"),
    Pool.CLIENT_MANAGE: ("clientManageThreadPoolNums", "clientManagerThreadPoolQueueCapacity"),
    Pool.CONSUMER_MANAGE: ("consumerManageThreadPoolNums", "consumerManagerThreadPoolQueueCapacity"),
    Pool.HEARTBEAT: ("heartbeatThreadPoolNums", "heartbeatThreadPoolQueueCapacity"),
    Pool.END_TRANSACTION: ("endTransactionThreadPoolNums", "endTransactionPoolQueueCapacity"),
    Pool.ADMIN: ("adminBrokerThreadPoolNums", None),
}
"""RocketMQ's keys: number of tasks, queue capacity."""
assert _POOL_KEYS.keys() == set(Pool)
_WAIT_KEYS: Mapping[Pool, str] = {
    Pool.SEND_MESSAGE: "waitTimeMillsInSendQueue",
    Pool.PULL_MESSAGE: "waitTimeMillsInPullQueue",
    Pool.HEARTBEAT: "waitTimeMillsInHeartbeatQueue",
    Pool.END_TRANSACTION: "waitTimeMillsInTransactionQueue",
}
"""RocketMQ's keys of `wait_ms_max`."""
_OWN_KEYS = {
    "serverConnectionsMax": ("connections_max", INT_MAX),
    "serverConnectionsPerHostMax": ("connections_per_host_max", INT_MAX),
    "serverFrameTimeoutMillis": ("frame_ms_max", INT_MAX),
    "serverOutputTimeoutMillis": ("output_ms_max", INT_MAX),
    "serverHeldBytesMax": ("held_bytes_max", LONG_MAX),
}
"""Key that RocketMQ lacks -> field, maximum value."""
_IDLE_KEY = "serverChannelMaxIdleTimeSeconds"
_FAST_FAILURE_KEY = "brokerFastFailureEnable"
_SOCKET_KEYS = {
    "serverSocketBacklog": ("backlog", 1 << 16),
    "serverSocketSndBufSize": ("send_buffer_bytes", 64 * MIB),
    "serverSocketRcvBufSize": ("receive_buffer_bytes", 64 * MIB),
}
"""RocketMQ's key -> field of the socket options, maximum value. As in RocketMQ, buffer size 0 means the default."""
_TASKS_MAX = 1_024  # each task is a thread
_DIGITS_MAX = 20  # `int` is slow for long texts


def server_limits_of(others: Mapping[str, str]) -> ServerLimits:
    """The keys of a broker.conf override the defaults. Raises ConfigError."""
    limits = ServerLimits()
    is_wait_limited = others.get(_FAST_FAILURE_KEY, "true").lower() != "false"
    for pool, (tasks_key, capacity_key) in _POOL_KEYS.items():
        one = limits.pools[pool]
        wait_ms_max, capacity = one.wait_ms_max, one.queue_capacity
        if wait_ms_max is not None and pool in _WAIT_KEYS:
            wait_key = _WAIT_KEYS[pool]
            wait_ms_max = _parse_number_setting(others, wait_key, wait_ms_max, INT_MAX) if is_wait_limited else None
        if capacity_key is not None:
            capacity = _parse_number_setting(others, capacity_key, capacity, INT_MAX)
        tasks = _parse_number_setting(others, tasks_key, one.tasks, _TASKS_MAX)
        limits = limits.with_pool(pool, replace(one, tasks=tasks, queue_capacity=capacity, wait_ms_max=wait_ms_max))
    idle_ms_max = 1_000 * _parse_number_setting(others, _IDLE_KEY, limits.idle_ms_max // 1_000, 86_400)
    own: dict[str, Any] = {
        name: _parse_number_setting(others, key, getattr(limits, name), maximum)
        for key, (name, maximum) in _OWN_KEYS.items()
    }
    return replace(limits, idle_ms_max=idle_ms_max, sockets=listen_options_of(others), **own)


def listen_options_of(others: Mapping[str, str]) -> ListenOptions:
    """The keys of a broker.conf override the defaults. Raises ConfigError."""
    wanted = {
        name: _parse_number_setting(others, key, 0, maximum, minimum=int(name == "backlog"))
        for key, (name, maximum) in _SOCKET_KEYS.items()
    }
    return replace(ListenOptions(), **{name: value for name, value in wanted.items() if value})


def settings_of_sockets(options: ListenOptions) -> dict[str, str]:
    return {key: str(getattr(options, name)) for key, (name, _) in _SOCKET_KEYS.items()}


def settings_of_limits(limits: ServerLimits) -> dict[str, str]:
    """Return the key and text of every setting, as in a broker.conf."""
    settings = {_IDLE_KEY: limits.idle_ms_max // 1_000, **{k: getattr(limits, n) for k, (n, _) in _OWN_KEYS.items()}}
    for pool, (tasks_key, capacity_key) in _POOL_KEYS.items():
        settings[tasks_key] = limits.pools[pool].tasks
        if capacity_key is not None:
            settings[capacity_key] = limits.pools[pool].queue_capacity
    waits = {pool: limits.pools[pool].wait_ms_max for pool in _WAIT_KEYS}
    settings |= {_WAIT_KEYS[pool]: POOL_LIMITS[pool].wait_ms_max if ms is None else ms for pool, ms in waits.items()}
    is_wait_limited = any(ms is not None for ms in waits.values())
    own = {_FAST_FAILURE_KEY: str(is_wait_limited).lower(), **settings_of_sockets(limits.sockets)}
    return own | {key: str(value) for key, value in settings.items()}


def _parse_number_setting(others: Mapping[str, str], key: str, default: int, maximum: int, *, minimum: int = 1) -> int:
    text = others.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX or not minimum <= int(text) <= maximum:
        raise ConfigError(key, f"a number from {minimum} to {maximum}", text[:80])
    return int(text)
