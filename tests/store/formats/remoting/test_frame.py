from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting.command import LANGUAGES, OTHER_LANGUAGE, HeaderForm, RemotingCommand
from tornlog.store.formats.remoting.frame import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    LENGTH_BYTES,
    CommandReader,
    decode_frame,
    encode_frame,
    frame_bytes,
)

PEER = "10.0.0.1:40001"

SEND = RemotingCommand(
    310, opaque=7, language=LANGUAGES.index("GO"), version=409, ext_fields={"a": "group", "b": "T1"}, body=b"hello"
)

JSON_FRAME = (
    bytes.fromhex("0000008b 00000082")
    + b'{"code":310,"extFields":{"a":"group","b":"T1"},"flag":0,"language":"GO","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":409}hello'
)
BINARY_FRAME = bytes.fromhex(
    "00000033"  # length
    "01"  # binary
    "00002a"  # headerLength: 21 + 0 + 21
    "0136"  # code 310
    "09"  # GO
    "0199"  # version 409
    "00000007"  # opaque
    "00000000"  # flag
    "00000000"  # remarkLength
    "00000015"  # extFieldsLength
    "0001 61 00000005 67726f7570"  # a: group
    "0001 62 00000002 5431"  # b: T1
    "68656c6c6f"  # hello
)


def decoded(raw: bytes) -> RemotingCommand:
    command, end = decode_frame(raw, 0, len(raw), file=PEER)
    assert end == len(raw)
    return command


def in_binary_form(command: RemotingCommand) -> RemotingCommand:
    return replace(command, form=HeaderForm.ROCKETMQ)


def fields_of(error: CorruptFileError) -> tuple[str, int, str, str, str]:
    return error.file, error.offset, error.field, error.expected, error.found


def test_an_encoded_command_has_the_specified_bytes_in_json_and_binary_form() -> None:
    assert encode_frame(SEND) == JSON_FRAME
    assert encode_frame(in_binary_form(SEND)) == BINARY_FRAME
    assert decoded(JSON_FRAME) == SEND
    assert decoded(BINARY_FRAME) == in_binary_form(SEND)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
COMMANDS = st.builds(
    RemotingCommand,
    code=st.integers(-(1 << 15), (1 << 15) - 1),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    language=st.integers(0, len(LANGUAGES) - 1),
    version=st.integers(-(1 << 15), (1 << 15) - 1),
    remark=st.none() | TEXTS.filter(bool),
    ext_fields=st.dictionaries(TEXTS, TEXTS, max_size=5),
    body=st.binary(max_size=50),
    form=st.sampled_from(HeaderForm),
)


@given(COMMANDS, st.binary(max_size=9), st.binary(max_size=9))
def test_a_frame_is_decoded_at_any_position_in_a_buffer(command: RemotingCommand, before: bytes, after: bytes) -> None:
    frame = encode_frame(command)
    raw = before + frame + after
    at, end = len(before), len(before) + len(frame)

    assert frame_bytes(raw, at, file=PEER) == len(frame)
    assert decode_frame(memoryview(raw), at, len(raw), file=PEER) == (command, end)
    assert encode_frame(decode_frame(raw, at, end, file=PEER)[0]) == frame


@given(st.binary(max_size=80), st.sampled_from((b"", JSON_FRAME, BINARY_FRAME)), st.integers(0, 120))
def test_any_bytes_decode_to_a_command_or_an_error_with_an_offset(noise: bytes, frame: bytes, at: int) -> None:
    raw = frame[:at] + noise + frame[at + len(noise) :]
    refusal = None
    try:
        command, end = decode_frame(raw, 0, len(raw), file=PEER)
    except CorruptFileError as error:
        refusal = error
    if refusal is not None:
        assert refusal.file == PEER
        assert 0 <= refusal.offset <= len(raw)
        return
    again = encode_frame(command)
    assert decoded(again) == command
    if command.form is HeaderForm.ROCKETMQ:
        assert again == raw[:end]


@pytest.mark.parametrize("length", [-(1 << 31), -1, 3, FRAME_BYTES_MAX - LENGTH_BYTES + 1, 0x7FFFFFFF])
def test_an_impossible_frame_length_is_refused_at_its_four_bytes(length: int) -> None:
    with pytest.raises(CorruptFileError) as caught:
        frame_bytes(length.to_bytes(4, "big", signed=True), 0, file=PEER, offset=100)

    assert fields_of(caught.value) == (PEER, 100, "length", "4 to 16777212", str(length))


def test_a_frame_of_the_maximum_size_is_encoded_and_a_longer_one_refused() -> None:
    body = bytes(FRAME_BYTES_MAX - len(encode_frame(RemotingCommand(10, 1))))

    assert len(encode_frame(RemotingCommand(10, 1, body=body))) == FRAME_BYTES_MAX
    with pytest.raises(ValueError, match="expected at most 16777216 bytes, found 16777217"):
        encode_frame(RemotingCommand(10, 1, body=body + b"x"))


def test_a_too_long_header_is_refused_by_its_length_alone() -> None:
    reader = CommandReader(PEER)
    reader.add((1 << 20).to_bytes(4, "big") + (HEADER_BYTES_MAX + 1).to_bytes(4, "big"))

    with pytest.raises(CorruptFileError) as caught:
        reader.take()

    assert fields_of(caught.value) == (PEER, 5, "headerLength", "0 to 262144", "262145")


@pytest.mark.parametrize("form", HeaderForm)
def test_a_header_of_the_maximum_size_is_accepted_and_a_longer_one_refused(form: HeaderForm) -> None:
    def sized(size_characters: int) -> RemotingCommand:
        return RemotingCommand(10, 1, ext_fields={"i": "p" * size_characters}, form=form)

    most = HEADER_BYTES_MAX - (len(encode_frame(sized(1))) - 8) + 1

    assert decoded(encode_frame(sized(most))) == sized(most)
    with pytest.raises(ValueError, match="header: expected at most 262144 bytes, found 262145"):
        encode_frame(sized(most + 1))


@pytest.mark.parametrize(
    ("at", "patch", "expected"),
    [
        (0, "00000034", (PEER, 0, "length", "at most 51", "52")),
        (4, "02", (PEER, 4, "headerForm", "0 or 1", "2")),
        (5, "000030", (PEER, 5, "headerLength", "0 to 47", "48")),
        (5, "000014", (PEER, 8, "headerLength", "at least 21 bytes", "20 bytes")),
        (21, "ffffffff", (PEER, 21, "remarkLength", "0 to 21", "-1")),
        (21, "00000016", (PEER, 21, "remarkLength", "0 to 21", "22")),
        (25, "00000014", (PEER, 25, "extFieldsLength", "21, the rest of the header", "20")),
        (29, "ffff", (PEER, 29, "keyLength", "0 to 15", "-1")),
        (29, "0010", (PEER, 29, "keyLength", "0 to 15", "16")),
        (32, "7fffffff", (PEER, 32, "valueLength", "0 to 14", str(0x7FFFFFFF))),
        (32, "0000000b", (PEER, 47, "keyLength", "a field, 6 bytes or more", "3 bytes")),
        (31, "ff", (PEER, 31, "key", "UTF-8", "ff")),
        (40, "c3", (PEER, 40, "value", "UTF-8", "c3")),
        (43, "61", (PEER, 43, "key", "a unique name", "'a'")),
    ],
)
def test_the_error_for_an_inconsistent_binary_frame_names_field_and_offset(
    at: int, patch: str, expected: tuple[str, int, str, str, str]
) -> None:
    new = bytes.fromhex(patch)
    raw = BINARY_FRAME[:at] + new + BINARY_FRAME[at + len(new) :]

    with pytest.raises(CorruptFileError) as caught:
        decoded(raw)

    assert fields_of(caught.value) == expected


def with_header(header: bytes) -> bytes:
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


@pytest.mark.parametrize(
    ("header", "offset", "field"),
    [
        (b"", 8, "JSON"),
        (b"[]", 8, "JSON"),
        (b'{"code":1,"opaque":2', 28, "JSON"),
        (b'{"code":1}', 8, "opaque"),
        (b'{"opaque":1}', 8, "code"),
        (b'{"code":"x","opaque":2}', 8, "code"),
        (b'{"code":2147483648,"opaque":2}', 8, "code"),
        (b'{"code":1,"opaque":2,"language":{}}', 8, "language"),
        (b'{"code":1,"opaque":2,"extFields":[]}', 8, "extFields"),
        (b'{"code":1,"opaque":2,"extFields":{"a":x}}', 46, "JSON"),
        (b'{"code":1,"opaque":2,"x":"\xff"}', 34, "text"),
        (b"{a:" + b"[" * 100, 8 + 3 + 31, "JSON"),
    ],
)
def test_the_error_for_an_invalid_json_header_names_field_and_offset(header: bytes, offset: int, field: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decoded(with_header(header))

    assert (caught.value.offset, caught.value.field) == (offset, field)


def test_json_header_members_may_be_in_any_order_and_unknown_members_are_ignored() -> None:
    header = b'{ "version": 3, "opaque" : 2, "new":{1:[true]}, "code":1, "extFields":{"a":null},"language":"KOTLIN"}'

    assert decoded(with_header(header)) == RemotingCommand(1, 2, version=3, language=OTHER_LANGUAGE)
    assert decoded(with_header(b'{"code":1,"opaque":2}')) == RemotingCommand(1, 2, language=0)


def test_an_unknown_language_keeps_its_number_only_in_binary_form() -> None:
    assert decoded(encode_frame(RemotingCommand(1, 2, language=77))).language == OTHER_LANGUAGE
    assert decoded(encode_frame(RemotingCommand(1, 2, language=77, form=HeaderForm.ROCKETMQ))).language == 77


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (RemotingCommand(1 << 15, 0, form=HeaderForm.ROCKETMQ), "code: expected 16 bits, found 32768"),
        (RemotingCommand(1, 1 << 31), "opaque: expected 32 bits"),
        (RemotingCommand(1, 0, language=128, form=HeaderForm.ROCKETMQ), "language: expected 8 bits"),
        (
            RemotingCommand(1, 0, ext_fields={"k" * 32768: ""}, form=HeaderForm.ROCKETMQ),
            "names of at most 32767 bytes, found 32768",
        ),
    ],
)
def test_the_error_for_a_field_that_does_not_fit_a_frame_names_it(command: RemotingCommand, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode_frame(command)


def test_command_flags_mark_responses_and_one_way_requests() -> None:
    assert (RemotingCommand(0, 1, flag=1).is_response, RemotingCommand(0, 1, flag=1).is_one_way) == (True, False)
    assert (RemotingCommand(0, 1, flag=2).is_response, RemotingCommand(0, 1, flag=2).is_one_way) == (False, True)
