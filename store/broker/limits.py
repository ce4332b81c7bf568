"""Server limits: bounds on the resources that one client may use.

Defaults of queues, queue waits and idle time are RocketMQ's; the others are this server's own. There are fewer tasks
than in RocketMQ, because requests that do not wait gain nothing from more tasks.
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
    """Requests in the queue. Any further request gets SYSTEM_BUSY at once."""
    wait_ms_max: int | None = None
    """Longest wait in the queue, after which a request gets SYSTEM_BUSY. None: no limit."""
    pipelined_tasks: int | None = None
    """Tasks that may serve pipelining clients, which send requests before they read answers. None: half of the tasks.
    Requests that only compute gain nothing from more tasks, and each task delays the others.
    """
    of_one_host_tasks: int | None = None
    """Tasks that may serve one host, for requests that wait for other clients. None: all."""

    @property
    def pipelined_tasks_max(self) -> int:
        """Return `pipelined_tasks` within 1 and the number of tasks."""
        wanted = self.tasks // 2 if self.pipelined_tasks is None else self.pipelined_tasks
        most = max(1, min(wanted, self.tasks))
        assert most <= self.tasks, (most, self.tasks)
        return most


_COMPUTING_TASKS = 2
"""One that computes, and one that starts while the first sends its answer."""

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
    """Limits of all requests and connections. Bytes are those of frames, received, queued or sent."""

    pools: Mapping[Pool, PoolLimits] = field(default_factory=lambda: POOL_LIMITS)
    connections_max: int = 16_384
    connections_per_host_max: int = 12_288
    """One host cannot take all connections."""
    idle_ms_max: int = 120_000
    """A connection without traffic for this long is closed."""
    frame_ms_max: int = 60_000
    """A connection whose frame is incomplete for this long is closed."""
    output_ms_max: int = 30_000
    """A connection whose client reads no byte of waiting output for this long is closed."""
    output_bytes_max: int = 16 * MIB
    """A connection with more unread output is closed."""
    output_pause_bytes: int = 256 * KIB
    """With more unread output, the client's input is paused."""
    requests_bytes_max: int = 32 * MIB
    """With more bytes of pending requests, the client's input is paused."""
    request_bytes_least: int = 2 * MIB
    """Minimum cost of a request in these counts: its answer may be large, and other clients' requests wait for it."""
    requests_of_host_bytes_max: int = 128 * MIB
    """The same per host. Each connection gets an equal share, and always at least one request."""
    held_bytes_max: int = 512 * MIB
    """All held bytes of all clients. Beyond it the slowest clients are closed and requests are refused."""

    sockets: ListenOptions = field(default_factory=ListenOptions)

    def with_pool(self, pool: Pool, limits: PoolLimits) -> "ServerLimits":
        """Return a copy with other limits for one kind of request."""
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
"""RocketMQ's keys for the number of tasks and the queue capacity of each kind."""
assert _POOL_KEYS.keys() == set(Pool)
_WAIT_KEYS: Mapping[Pool, str] = {
    Pool.SEND_MESSAGE: "waitTimeMillsInSendQueue",
    Pool.PULL_MESSAGE: "waitTimeMillsInPullQueue",
    Pool.HEARTBEAT: "waitTimeMillsInHeartbeatQueue",
    Pool.END_TRANSACTION: "waitTimeMillsInTransactionQueue",
}
"""RocketMQ's keys for the longest queue wait, where a kind has one."""
_OWN_KEYS = {
    "serverConnectionsMax": ("connections_max", INT_MAX),
    "serverConnectionsPerHostMax": ("connections_per_host_max", INT_MAX),
    "serverFrameTimeoutMillis": ("frame_ms_max", INT_MAX),
    "serverOutputTimeoutMillis": ("output_ms_max", INT_MAX),
    "serverHeldBytesMax": ("held_bytes_max", LONG_MAX),
}
"""This server's own keys: field and maximum."""
_IDLE_KEY = "serverChannelMaxIdleTimeSeconds"
_FAST_FAILURE_KEY = "brokerFastFailureEnable"
_SOCKET_KEYS = {
    "serverSocketBacklog": ("backlog", 1 << 16),
    "serverSocketSndBufSize": ("send_buffer_bytes", 64 * MIB),
    "serverSocketRcvBufSize": ("receive_buffer_bytes", 64 * MIB),
}
"""RocketMQ's keys: option and maximum. As in RocketMQ, 0 selects the default of a buffer."""
_TASKS_MAX = 1_024  # each task is a thread, started with the server
_DIGITS_MAX = 20  # `int` is slow for longer texts


def server_limits_of(others: Mapping[str, str]) -> ServerLimits:
    """Return the default limits, overridden by the keys of a broker.conf. Raises ConfigError."""
    limits = ServerLimits()
    ages = others.get(_FAST_FAILURE_KEY, "true").lower() != "false"
    for pool, (tasks_key, capacity_key) in _POOL_KEYS.items():
        one = limits.pools[pool]
        wait_ms_max, capacity = one.wait_ms_max, one.queue_capacity
        if wait_ms_max is not None and pool in _WAIT_KEYS:
            wait_ms_max = _number(others, _WAIT_KEYS[pool], wait_ms_max, INT_MAX) if ages else None
        if capacity_key is not None:
            capacity = _number(others, capacity_key, capacity, INT_MAX)
        tasks = _number(others, tasks_key, one.tasks, _TASKS_MAX)
        limits = limits.with_pool(pool, replace(one, tasks=tasks, queue_capacity=capacity, wait_ms_max=wait_ms_max))
    idle_ms_max = 1_000 * _number(others, _IDLE_KEY, limits.idle_ms_max // 1_000, 86_400)
    own: dict[str, Any] = {
        name: _number(others, key, getattr(limits, name), most) for key, (name, most) in _OWN_KEYS.items()
    }
    return replace(limits, idle_ms_max=idle_ms_max, sockets=listen_options_of(others), **own)


def listen_options_of(others: Mapping[str, str]) -> ListenOptions:
    """Return the default socket options, overridden by the keys of a broker.conf. Raises ConfigError."""
    wanted = {
        name: _number(others, key, 0, most, least=int(name == "backlog")) for key, (name, most) in _SOCKET_KEYS.items()
    }
    return replace(ListenOptions(), **{name: value for name, value in wanted.items() if value})


def settings_of_sockets(options: ListenOptions) -> dict[str, str]:
    return {key: str(getattr(options, name)) for key, (name, _) in _SOCKET_KEYS.items()}


def settings_of_limits(limits: ServerLimits) -> dict[str, str]:
    """Return every setting of the server by key, spelled as in a broker.conf."""
    settings = {_IDLE_KEY: limits.idle_ms_max // 1_000, **{k: getattr(limits, n) for k, (n, _) in _OWN_KEYS.items()}}
    for pool, (tasks_key, capacity_key) in _POOL_KEYS.items():
        settings[tasks_key] = limits.pools[pool].tasks
        if capacity_key is not None:
            settings[capacity_key] = limits.pools[pool].queue_capacity
    waits = {pool: limits.pools[pool].wait_ms_max for pool in _WAIT_KEYS}
    settings |= {_WAIT_KEYS[pool]: POOL_LIMITS[pool].wait_ms_max if ms is None else ms for pool, ms in waits.items()}
    ages = any(ms is not None for ms in waits.values())
    own = {_FAST_FAILURE_KEY: str(ages).lower(), **settings_of_sockets(limits.sockets)}
    return own | {key: str(value) for key, value in settings.items()}


def _number(others: Mapping[str, str], key: str, default: int, most: int, *, least: int = 1) -> int:
    text = others.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX or not least <= int(text) <= most:
        raise ConfigError(key, f"a number from {least} to {most}", text[:80])
    return int(text)
