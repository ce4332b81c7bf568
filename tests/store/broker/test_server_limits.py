"""Server limits from a broker.conf, and deadlines."""

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.deadlines import TimeoutTable
from tornlog.store.broker.limits import POOL_LIMITS, PoolLimits, ServerLimits, server_limits_of, settings_of_limits
from tornlog.store.broker.router import Pool
from tornlog.store.broker.serve import ServedBroker, limits_of_process
from tornlog.store.config import ConfigError, StoreConfig
from tornlog.store.network import ListenOptions
from tornlog.store.real.world import real_world
from tornlog.store.settings.broker_conf import read_broker_conf


def test_an_empty_file_keeps_the_default_server_limits() -> None:
    assert server_limits_of({}) == ServerLimits()
    assert set(POOL_LIMITS) == set(Pool)


def test_each_key_changes_its_own_server_limit() -> None:
    limits = server_limits_of(
        {
            "sendMessageThreadPoolNums": "3",
            "sendThreadPoolQueueCapacity": "4",
            "waitTimeMillsInSendQueue": "5",
            "adminBrokerThreadPoolNums": "7",
            "serverChannelMaxIdleTimeSeconds": "8",
            "serverConnectionsMax": "9",
            "serverConnectionsPerHostMax": "6",
            "serverFrameTimeoutMillis": "10",
            "serverOutputTimeoutMillis": "11",
            "serverHeldBytesMax": "12",
            "serverSocketBacklog": "13",
            "serverSocketSndBufSize": "14",
            "serverSocketRcvBufSize": "15",
        }
    )

    assert limits.pools[Pool.SEND_MESSAGE] == PoolLimits(3, 4, 5, pipelined_tasks=2)
    assert limits.pools[Pool.ADMIN] == replace(POOL_LIMITS[Pool.ADMIN], tasks=7)
    assert limits.pools[Pool.PULL_MESSAGE] == POOL_LIMITS[Pool.PULL_MESSAGE]
    assert (limits.idle_ms_max, limits.connections_max, limits.connections_per_host_max) == (8_000, 9, 6)
    assert (limits.frame_ms_max, limits.output_ms_max, limits.held_bytes_max) == (10, 11, 12)
    assert limits.sockets == ListenOptions(13, 14, 15)
    assert settings_of_limits(limits)["serverSocketBacklog"] == "13"


def test_without_fast_failure_requests_do_not_expire() -> None:
    limits = server_limits_of({"brokerFastFailureEnable": "false", "waitTimeMillsInSendQueue": "5"})

    assert {one.wait_ms_max for one in limits.pools.values()} == {None}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "x", "9" * 30, "\u0663"])
def test_an_invalid_server_limit_is_an_error_with_its_key(text: str) -> None:
    with pytest.raises(ConfigError, match="waitTimeMillsInPullQueue"):
        server_limits_of({"waitTimeMillsInPullQueue": text})


def test_a_buffer_size_of_0_is_the_default_and_a_backlog_of_0_is_an_error() -> None:
    assert server_limits_of({"serverSocketSndBufSize": "0", "serverSocketRcvBufSize": "0"}) == ServerLimits()
    with pytest.raises(ConfigError, match="serverSocketBacklog: expected a number from 1"):
        server_limits_of({"serverSocketBacklog": "0"})


def test_a_low_descriptor_limit_reduces_the_number_of_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (256, 256))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: None)
    limits, lines = limits_of_process({}), list[str]()
    config = StoreConfig(str(tmp_path), mapped_file_size_commit_log=1 << 16, ha_listen_port=0)
    served = ServedBroker(real_world(), config, BrokerConfig(), limits, emit=lambda line: lines.append(str(line)))
    served.start(["127.0.0.1:0"])

    assert served.shutdown()
    assert (limits.connections_max, limits.connections_per_host_max) == (128, 128)
    assert any("only 128 clients can be connected at once" in line for line in lines)


def test_the_descriptor_table_grows_before_the_first_connection() -> None:
    script = (
        "from tornlog.store.broker.serve import limits_of_process as limits\n"
        "print(limits({'serverConnectionsMax': '3000'}).connections_max, open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    connections_max, *status = done.stdout.split()
    size = int(status[status.index("FDSize:") + 1])
    assert size > int(connections_max) > 256, "a process begins with room for 64 or 256"


def test_leading_zeros_do_not_bypass_the_maximum_of_a_server_limit() -> None:
    with pytest.raises(ConfigError, match="sendMessageThreadPoolNums"):
        server_limits_of({"sendMessageThreadPoolNums": "0" * 17 + "199999"})


def test_the_servers_own_keys_are_accepted_in_broker_conf() -> None:
    conf = read_broker_conf("serverHeldBytesMax=1048576\nserverFrameTimeoutMillis=1000\n", "/store")

    limits = server_limits_of(conf.others)
    assert (limits.held_bytes_max, limits.frame_ms_max) == (1 << 20, 1_000)


def test_due_deadlines_are_taken_in_order_up_to_a_count() -> None:
    deadlines: TimeoutTable[str] = TimeoutTable(10)
    for at, who in enumerate("abcd"):
        deadlines.set(who, at * 1_000_000)
    deadlines.set("a", 5_000_000)
    deadlines.drop("c")
    deadlines.drop("nobody")

    assert (next(iter(deadlines)), deadlines.next_due_ns) == ("b", 11_000_000)
    assert deadlines.start_ns_of("b") == 1_000_000
    assert deadlines.pop_due(10_999_999, 9) == []
    assert deadlines.pop_due(13_000_000, 1) == ["b"]
    assert deadlines.pop_due(13_000_000, 9) == ["d"]
    assert "a" in deadlines
    assert deadlines.pop_due(15_000_000, 9) == ["a"]
    assert (list(deadlines), deadlines.next_due_ns) == ([], None)
