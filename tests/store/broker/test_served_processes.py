"""`tornlog serve` as processes: name servers, metrics, live settings, log files."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.command_line import tornlog
from tornlog.store.broker.requests import RequestCode, ResponseCode

from .conftest import ServeProcess

pytestmark = pytest.mark.ci

SMALL = "mapedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\nregisterNameServerPeriod=10000\n"


@pytest.fixture
def conf(tmp_path: Path) -> Callable[..., str]:
    def write(**keys: str) -> str:
        path = tmp_path / "broker.conf"
        path.write_text(SMALL + "".join(f"{key}={value}\n" for key, value in keys.items()))
        return str(path)

    return write


def wait_until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (last := found()):
        assert time.monotonic() < end, last
        time.sleep(0.05)
    return last


def has_route(names: ServeProcess, topic: str) -> bool:
    return names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).code == ResponseCode.SUCCESS


def make_topic(broker: ServeProcess, topic: str) -> None:
    fields = {"topic": topic, "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
    assert broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields).code == ResponseCode.SUCCESS


def send(broker: ServeProcess, topic: str, messages: int) -> None:
    letters = {"a": "sellers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    for _ in range(messages):
        fields = {**letters, "i": "", "j": "0", "k": "false"}
        assert broker.ask(RequestCode.SEND_MESSAGE_V2, b"m", **fields).code == ResponseCode.SUCCESS


@pytest.mark.slow
def test_a_broker_registers_with_all_reachable_name_servers(
    start: Callable[..., ServeProcess], conf: Callable[..., str]
) -> None:
    one, other = (start(name, "--name-server", "--port", "0") for name in ("one", "other"))
    port = one.address.rpartition(":")[2]
    servers = f"{one.address};{other.address}"
    broker = start("store", "--port", "0", "--config", conf(namesrvAddr=servers, brokerName="alone"))
    for names in (one, other):
        wait_until(lambda names=names: has_route(names, "TBW102"))
        cluster = names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body.decode()
        assert cluster.count('"brokerName":') == 1
        assert broker.address in cluster

    assert one.end(signal.SIGKILL) == -signal.SIGKILL
    make_topic(broker, "Orders")
    wait_until(lambda: has_route(other, "Orders"), 5)
    wait_until(partial(broker.has_logged, f"name server {one.address}: cannot register"))
    again = start("one", "--name-server", "--port", port)
    wait_until(lambda: has_route(again, "Orders"), 30)
    wait_until(partial(broker.has_logged, "registered again"))

    assert broker.end() == 0
    wait_until(lambda: not has_route(again, "Orders"))
    assert (again.end(), other.end()) == (0, 0)


def test_a_name_server_keeps_its_configuration_and_tells_brokers_which_topics_are_ordered(
    start: Callable[..., ServeProcess], conf: Callable[..., str]
) -> None:
    names = start("names", "--name-server", "--port", "0", "--log-json")
    port = names.address.rpartition(":")[2]
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Orders"}
    assert names.ask(RequestCode.PUT_KV_CONFIG, **order, value="alone:2").code == ResponseCode.SUCCESS
    assert names.end(signal.SIGKILL) == -signal.SIGKILL
    names = start("names", "--name-server", "--port", port)
    assert names.ask(RequestCode.GET_KV_CONFIG, **order).ext_fields == {"value": "alone:2"}
    assert f"listenPort={port}\n" in names.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    assert names.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body == b'{"brokerAddr":"","topicList":[]}'

    broker = start("store", "--port", "0", "--config", conf(namesrvAddr=names.address))
    make_topic(broker, "Orders")

    def is_ordered() -> bool:
        topics = json.loads(broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
        return topics["Orders"]["order"] is True

    wait_until(is_ordered)
    first = json.loads(names.log.read_text().splitlines()[0])
    assert first["level"] == "info"
    assert "serving" in first["message"]


def test_two_name_servers_cannot_share_a_directory(start: Callable[..., ServeProcess], tmp_path: Path) -> None:
    start("names", "--name-server", "--port", "0")
    command = [sys.executable, "-m", "tornlog", "serve", str(tmp_path / "names"), "--name-server", "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert "locked by another name server" in second.stderr


@pytest.mark.parametrize("option", [("--name", "x"), ("--role", "slave"), ("--metrics", "0")])
def test_broker_options_are_refused_for_a_name_server(tmp_path: Path, option: tuple[str, str]) -> None:
    arguments = ["serve", str(tmp_path), "--name-server", *option]
    result = tornlog(*arguments, columns=200)
    assert result.exit_code == 2
    assert "--name-server runs none" in result.output


@pytest.mark.parametrize("option", ["--metrics", "--health"])
@pytest.mark.parametrize("text", ["x", "1:2:3", "127.0.0.1:70000", "70000", "127.0.0.1:"])
def test_an_invalid_monitoring_address_is_a_usage_error(tmp_path: Path, option: str, text: str) -> None:
    result = tornlog("serve", str(tmp_path), option, text, columns=200)
    assert result.exit_code == 2
    assert option in result.output


def metrics_of(broker: ServeProcess) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    request = urllib.request.Request(broker.ready["metrics"], headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name.removeprefix("tornlog_"), frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_exported_metrics_include_store_queues_and_limits(
    start: Callable[..., ServeProcess], conf: Callable[..., str]
) -> None:
    broker = start("store", "--port", "0", "--config", conf(), "--metrics", "0")
    assert broker.ready["metrics"].startswith("http://127.0.0.1:")
    send(broker, "Orders", 5)
    offset = {"consumerGroup": "billing", "topic": "Orders", "queueId": "0", "commitOffset": "2"}
    broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **offset)
    broker.ask(RequestCode(12), topic="Orders")  # its fields are missing
    wait_until(lambda: metrics_of(broker)["dispatch_behind_bytes", frozenset()] == 0)

    found = metrics_of(broker)

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    assert value("messages_put_total") == value("topic_messages_put_total", topic="Orders") == 5
    assert value("put_bytes_total") == value("topic_put_bytes_total", topic="Orders") == value("log_max_offset_bytes")
    assert value("put_latency_seconds_bucket", le="+Inf") == 5
    bounds = ("0.001", "0.002", "0.003", "0.004", "0.005", "0.007", "0.01", "+Inf")
    counts = [value("put_latency_seconds_bucket", le=bound) for bound in bounds]
    assert counts == sorted(counts)
    assert value("ready", check="recovered") == value("ready", check="writable") == 1
    assert found["process_resident_memory_bytes", frozenset()] > 1e6
    assert value("group_lag_messages", topic="Orders", group="billing") == 3
    assert value("log_durable_offset_bytes") + value("flush_behind_bytes") == value("log_max_offset_bytes")
    assert value("requests_total") == 7
    assert value("connections_accepted_total") == 7
    assert value("queue_requests_max", pool="send message") == 10_000
    assert value("held_bytes_max") == 512 << 20
    assert value("is_slave") == value("slaves") == value("store_refusals") == value("services_failed") == 0
    assert 0 < value("disk_used_ratio", directory=f"{broker.ready['directory']}/commitlog") < 1
    assert broker.end() == 0


WHOLE_NUMBERS = """
bootTimestamp brokerVersion commitLogMaxOffset commitLogMinOffset dispatchBehindBytes dispatchMaxBuffer
earliestMessageTimeStamp getMessageEntireTimeMax msgGetTotalTodayMorning msgGetTotalTodayNow
msgGetTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning
pageCacheLockTimeMills pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize
putMessageEntireTimeMax putMessageSizeTotal putMessageTimesTotal queryThreadPoolQueueCapacity
queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize remainTransientStoreBufferNumbs
sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize
startAcceptSendRequestTimeStamp
"""
FORMS = {
    **dict.fromkeys(re.findall(r"\w+", WHOLE_NUMBERS), r"-?\d+"),
    **dict.fromkeys(("commitLogDiskRatio", "consumeQueueDiskRatio", "putMessageAverageSize"), r"-?\d+\.\d+"),
    **dict.fromkeys(("putLatency99", "putLatency999"), r"-?\d+\.\d+"),
    **dict.fromkeys(
        ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps"), r" *|\d+\.\d+ \d+\.\d+ \d+\.\d+"
    ),
    "brokerVersionDesc": r"V4_9_\d+",
    "commitLogDirCapacity": r"Total : [\d.]+ [KMGTP]iB, Free : [\d.]+ [KMGTP]iB\.",
    "putMessageDistributeTime": r"(\[\S+\]:\d+ ?)+",
    "remainHowManyDataToFlush": r"\d+(\.\d+)? ([KMGTPE]i)?B",
    "runtime": r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
    "scheduleMessageOffset_1": r"\d+,\d+",
}
"""Runtime figures that RocketMQ's exporter parses, with a regular expression of their values. Blank: no value yet."""


def test_runtime_info_has_the_format_that_rocketmqs_exporter_parses(start: Callable[..., ServeProcess]) -> None:
    broker = start("store", "--port", "0")
    make_topic(broker, "Orders")
    send(broker, "Orders", 3)
    delayed = {"a": "sellers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    properties = "DELAY\x011\x02"
    answer = broker.ask(RequestCode.SEND_MESSAGE_V2, b"m", **delayed, i=properties, j="0", k="false")
    assert answer.code == ResponseCode.SUCCESS

    def table() -> dict[str, str]:
        body = broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body
        found: dict[str, str] = json.loads(body)["table"]
        return found

    wait_until(lambda: table().get("scheduleMessageOffset_1") == "1,1")  # offset and end of delayed delivery
    figures = table()
    assert {
        name: figures.get(name) for name, form in FORMS.items() if not re.fullmatch(form, figures.get(name, "-"))
    } == {}
    assert sum(map(int, re.findall(r":(\d+)", figures["putMessageDistributeTime"]))) == 5


def test_changed_settings_are_in_the_file_and_apply_after_a_restart(
    start: Callable[..., ServeProcess], conf: Callable[..., str]
) -> None:
    file = conf(brokerName="alone")
    broker = start("store", "--port", "0", "--config", file, "--log-level", "debug")
    assert broker.ask(RequestCode.UPDATE_BROKER_CONFIG, b"maxMessageSize=10\ntraceOn=false").code == 0
    refused = broker.ask(RequestCode.UPDATE_BROKER_CONFIG, b"sendMessageThreadPoolNums=99")
    assert (refused.code, "sendMessageThreadPoolNums" in (refused.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    assert broker.ask(RequestCode(327), body=b"").code != 0
    broker.ask(RequestCode.CHECK_TRANSACTION_STATE)
    assert Path(file).read_text() == f"{SMALL}brokerName=alone\nmaxMessageSize=10\ntraceOn=false\n"
    for line in ("INFO settings changed by 127.0.0.1:", "DEBUG 127.0.0.1:"):  # the log may be written after the answer
        wait_until(partial(broker.has_logged, line))
    assert broker.end(signal.SIGKILL) == -signal.SIGKILL

    again = start("store", "--port", "0", "--config", file)
    shown = again.ask(RequestCode.GET_BROKER_CONFIG).body.decode()
    assert "maxMessageSize=10\n" in shown
    assert "sendMessageThreadPoolNums=4\n" in shown
