"""Settings that change while the broker runs."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tornlog.store.broker import live_settings
from tornlog.store.broker.live_settings import LIVE_KEYS
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.java_properties import parse_properties
from tornlog.store.settings.conf_file import ConfFile, change_settings_in_text
from tornlog.store.world import Files

Live = Callable[..., Any]
HANDED_ON = {
    "flush_consumer_offset_interval_ms",
    "transaction_timeout_ms",
    "transaction_check_max",
    "transaction_check_interval_ms",
}
"""Settings of which parts have copies. A change updates the copies."""


def change_settings(client: Any, text: str) -> Any:
    return client.answer(RequestCode.UPDATE_BROKER_CONFIG, text.encode())


def shown_settings(client: Any) -> dict[str, str]:
    text = client.answer(RequestCode.GET_BROKER_CONFIG).body.decode()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_changed_setting_applies_to_the_next_request_and_is_shown(client: Any) -> None:
    before = client.answer(RequestCode.GET_BROKER_CONFIG).ext_fields["version"]
    assert client.send_message(b"m", topic="First").code == ResponseCode.SUCCESS
    assert change_settings(client, "autoCreateTopicEnable=false\nmaxMessageSize=2").code == ResponseCode.SUCCESS
    assert client.send_message(b"m", topic="Second").code == ResponseCode.TOPIC_NOT_EXIST
    assert client.send_message(b"long", topic="First").code == ResponseCode.MESSAGE_ILLEGAL
    assert (shown_settings(client)["autoCreateTopicEnable"], shown_settings(client)["maxMessageSize"]) == ("false", "2")
    after = client.answer(RequestCode.GET_BROKER_CONFIG).ext_fields["version"]
    assert ('"counter":0' in before, '"counter":1' in after) == (True, True)


def test_changed_settings_reach_the_services_that_copied_them(bench: Any) -> None:
    change_settings(bench.client(), "transactionCheckMax=3\ntransactionTimeOut=77\nflushConsumerOffsetInterval=88")
    broker = bench.broker
    assert broker.transactions.checker.config.transaction_check_max == 3
    assert broker.transactions.config.transaction_timeout_ms == 77
    assert broker.offsets.flush_interval_ms == 88


def test_a_new_broker_permission_increments_the_version_of_the_topic_table(bench: Any) -> None:
    before = bench.broker.topics.version
    change_settings(bench.client(), "brokerPermission=4")
    assert bench.broker.topics.version.counter == before.counter + 1
    route = bench.client().answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").body
    assert b'"perm":4' in route


def test_a_new_broker_permission_applies_even_if_the_topic_table_cannot_be_written(live: Live, lab: Live) -> None:
    made = lab()

    def body(bench: Any) -> None:
        client, said = bench.client(), []
        bench.broker.settings.emit = lambda line: said.append(str(line))
        made.failures.plan("sync", "topics.json")
        assert change_settings(client, "brokerPermission=4").code == ResponseCode.SUCCESS
        assert shown_settings(client)["brokerPermission"] == "4"
        assert len(said) == 2
        assert "brokerPermission=4 (was 6)" in said[0]
        assert "Input/output error" in said[1]

    live(body, made)


@pytest.mark.parametrize(
    ("text", "code", "remark"),
    [
        ("brokerName=other", ResponseCode.NO_PERMISSION, "brokerName cannot change while the broker runs"),
        ("mapedFileSizeCommitLog=9", ResponseCode.NO_PERMISSION, "mappedFileSizeCommitLog cannot change"),
        ("filterServerNums=1", ResponseCode.NO_PERMISSION, "filterServerNums has no effect on this broker"),
        ("noSuchKey=1", ResponseCode.SYSTEM_ERROR, "noSuchKey is not a broker setting"),
        ("maxMessageSize=many", ResponseCode.SYSTEM_ERROR, "maxMessageSize: expected an integer, found 'many'"),
        ("maxMessageSize=0", ResponseCode.SYSTEM_ERROR, "maxMessageSize: expected 1 or more, found 0"),
        ("deleteWhen=25", ResponseCode.SYSTEM_ERROR, "deleteWhen: expected hours"),
        ("brokerPermission=8", ResponseCode.SYSTEM_ERROR, "brokerPermission: expected 0 to 7, found 8"),
        ("", ResponseCode.SYSTEM_ERROR, "found none"),
        ("a=\\u12", ResponseCode.SYSTEM_ERROR, "line 2: expected four"),
    ],
)
def test_a_fixed_or_invalid_setting_is_refused_with_the_whole_request(
    client: Any, text: str, code: ResponseCode, remark: str
) -> None:
    before = shown_settings(client)
    answer = change_settings(client, f"traceOn=false\n{text}" if text else text)
    assert answer.code == code
    assert remark in answer.remark
    assert shown_settings(client) == before


def test_setting_an_equal_value_is_not_counted_as_a_change(bench: Any, client: Any) -> None:
    assert change_settings(client, "brokerName=broker-a\nbrokerRole=ASYNC_MASTER").code == ResponseCode.SUCCESS
    assert bench.broker.settings.version.counter == 0


def test_a_changed_setting_is_written_to_the_file_before_it_applies(bench: Any) -> None:
    client, settings, told = bench.client(), bench.broker.settings, []
    bench.world.files.make_directories("/etc")
    bench.world.files.write("/etc/broker.conf", b"# ours\ntraceOn = true\nbrokerName=broker-a\n")
    settings.file, settings.emit = ConfFile(bench.world.files, "/etc/broker.conf"), told.append
    assert change_settings(client, "traceOn=false\nfileReservedTime=48").code == ResponseCode.SUCCESS
    expected = b"# ours\ntraceOn=false\nbrokerName=broker-a\nfileReservedTime=48\n"
    assert bench.world.files.read("/etc/broker.conf") == expected
    assert bench.world.files.read("/etc/broker.conf.bak").startswith(b"# ours\ntraceOn = true")
    assert "traceOn=false (was true), fileReservedTime=48 (was 72)" in told[0]
    assert client.remote_address in told[0]
    settings.file = ConfFile(bench.world.files, "/nowhere/else/broker.conf/file")
    bench.world.files.write("/nowhere", b"")
    assert change_settings(client, "traceOn=true").code == ResponseCode.SYSTEM_ERROR
    assert shown_settings(client)["traceOn"] == "false"


def test_at_each_moment_of_a_change_there_is_a_broker_conf(bench: Any) -> None:
    files, path, seen = bench.world.files, "/etc/broker.conf", set()

    class WatchedFiles:
        def __getattr__(self, name: str) -> Any:
            if files.status(path) is not None:
                seen.add(files.read(path))
            else:
                seen.add(None)
            return getattr(files, name)

    files.make_directories("/etc")
    files.write(path, b"traceOn=true\n")
    conf = ConfFile(cast(Files, WatchedFiles()), path)
    conf.write({"traceOn": "false"})
    conf.write({"traceOn": "true"})
    assert seen == {b"traceOn=true\n", b"traceOn=false\n"}
    assert files.read(f"{path}.bak") == b"traceOn=false\n"


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("", {"a": "1"}, "a=1\n"),
        ("a=1", {"b": "2"}, "a=1\nb=2\n"),
        ("a=1\\\n  2\n# c\nb=3\n", {"a": "9"}, "a=9\n# c\nb=3\n"),
        ("a : 1\na=2\n", {"a": "3"}, "a=3\n"),
        ("a=1\r\nb=2\r\n", {"b": "3"}, "a=1\r\nb=3\n"),
        ("path=x\n", {"path": "c:\\d"}, "path=c:\\\\d\n"),
        (  # in Java a form feed, U+2028 and U+0085 do not end a line
            "# page\x0c one\u2028 two\x85\nfirst=1\n# kept\nsecond=2\r\nthird=3\r",
            {"first": "10", "third": "30", "fourth": "4"},
            "# page\x0c one\u2028 two\x85\nfirst=10\n# kept\nsecond=2\r\nthird=30\nfourth=4\n",
        ),
    ],
)
def test_only_lines_of_changed_settings_are_rewritten(text: str, wanted: dict[str, str], found: str) -> None:
    assert change_settings_in_text(text, wanted) == found
    assert {each.key: each.value for each in parse_properties(found)}.items() >= wanted.items()


def _reads_at_construction(path: Path, names: set[str]) -> Iterator[str]:
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in names:
                    yield f"{path.name}:{node.lineno}: {node.attr}"


def test_no_constructor_copies_a_live_setting() -> None:
    names = {*live_settings._LIVE_OF_STORE.split(), *live_settings._LIVE_OF_BROKER.split()} - HANDED_ON
    assert len(names) + len(HANDED_ON) == len(LIVE_KEYS) > 50
    store = Path(live_settings.__file__).parents[1]
    assert [found for path in sorted(store.rglob("*.py")) for found in _reads_at_construction(path, names)] == []


def test_a_setting_with_a_long_name_is_refused_and_not_quoted(bench: Any) -> None:
    refused = change_settings(bench.client(), "k" * 256 + "=1")
    assert refused.remark == "settings: expected names of 255 characters or fewer, found 256"
