"""Bodies as fastjson writes them, and bodies of clients, which may be anything."""

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting.json_body import (
    MessageQueue,
    decode_json_body,
    decode_queue_offsets,
    encode_json_body,
)


def test_json_body_keys_are_written_as_by_fastjson() -> None:
    queue = MessageQueue("T", "b", 3)
    assert encode_json_body({"a": {0: "x"}, "o": {queue: {"maxOffset": 1}}, "l": [queue, True, 1.5]}) == (
        b'{"a":{0:"x"},"o":{{"brokerName":"b","queueId":3,"topic":"T"}:{"maxOffset":1}},'
        b'"l":[{"brokerName":"b","queueId":3,"topic":"T"},true,1.5]}'
    )
    assert encode_json_body({"none": None, "text": 'quo"te é'}) == '{"text":"quo\\"te é"}'.encode()


def test_json_body_members_are_read_by_type_and_missing_ones_named_by_path() -> None:
    body = decode_json_body(b'{"t":"x","n":5,"b":true,"o":{"n":7},"l":[{"n":1},{"n":2}],"z":null}')
    assert (body.text("t"), body.integer("n"), body.boolean("b")) == ("x", 5, True)
    assert body.inner_object("o").integer("n") == 7
    assert [each.integer("n") for each in body.objects("l", 2)] == [1, 2]
    assert body.text("z", "d") == "d"
    assert list(body.inner_object("none").table()) == []


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (lambda body: body.integer("o"), "o"),
        (lambda body: body.integer("t"), "t"),
        (lambda body: body.boolean("t"), "t"),
        (lambda body: body.boolean("l"), "l"),
        (lambda body: body.choice("o", ["a"], "a"), "o"),
        (lambda body: body.text("none"), "none"),
        (lambda body: body.integer("big", bits=32), "big"),
        (lambda body: body.inner_object("o").boolean("t"), "o.t"),
        (lambda body: body.inner_object("l"), "l"),
        (lambda body: list(body.objects("t", 9)), "t"),
        (lambda body: list(body.objects("l", 1)), "l"),
        (lambda body: [each.text("none") for each in body.objects("l", 2)], r"l\[0\].none"),
        (lambda body: list(body.table()), "t"),
    ],
)
def test_the_error_for_a_json_member_of_wrong_type_names_its_path(read: object, path: str) -> None:
    body = decode_json_body(b'{"t":"x","n":5,"b":true,"big":4294967296,"o":{"t":"x"},"l":[{"n":1},{"n":2}]}')
    with pytest.raises(CorruptFileError, match=f"body @ 0: {path}: expected "):
        read(body)  # type: ignore[operator]


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a":Infinity}', b'{"a":' + b"[" * 5000, b"\xff"])
def test_a_json_body_that_is_not_an_object_is_an_error(raw: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_json_body(raw)


QUEUE = b'{"brokerName":"broker-a","queueId":1,"topic":"T"}'


def test_offsets_by_queue_are_parsed_as_clients_write_them() -> None:
    other = b'{ "topic": "U", "queueId": 2, "brokerName": "broker-a" }'
    raw = b'{"table":{' + QUEUE + b":7, " + other + b' : 8},"more":{1:2}}'
    expected = {MessageQueue("T", "broker-a", 1): 7, MessageQueue("U", "broker-a", 2): 8}
    assert decode_queue_offsets(raw, "table") == expected
    assert decode_queue_offsets(raw, "missing") == {}


@pytest.mark.parametrize(
    "table",
    [QUEUE + b":[]", QUEUE + b':"x"', b'"T":7', b'{"topic":"T"}:7', b"{}:7", QUEUE + b":null", QUEUE * 2 + b":7"],
)
def test_invalid_offsets_by_queue_are_an_error(table: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_queue_offsets(b'{"table":{' + table + b"}}", "table")
