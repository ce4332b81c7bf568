"""JSON headers: the fast reader returns the same as the careful one."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting import command as remoting
from tornlog.store.formats.remoting.command import RemotingCommand, decode_json_header

PEER = "10.0.0.1:40001"
AT = 8
PLAIN = (
    b'{"code":310,"extFields":{"a":"producers","b":"T1","i":"KEYS\\u0001k\\u0002"},"flag":0,"language":"JAVA",'
    b'"opaque":7,"remark":"so","serializeTypeCurrentRPC":"JSON","version":395}'
)
NAMES = ("code", "opaque", "flag", "language", "version", "remark", "extFields", "serializeTypeCurrentRPC", "other")


def outcome_of(read: object, raw: bytes) -> RemotingCommand | str:
    assert callable(read)
    try:
        command: RemotingCommand = read(raw)
    except CorruptFileError as error:
        return str(error)
    assert all(type(name) is type(text) is str for name, text in command.ext_fields.items())
    return command


def assert_parsers_agree(raw: bytes) -> None:
    """Read a header in both ways."""
    either = outcome_of(lambda each: decode_json_header(each, b"body", file=PEER, offset=AT), raw)
    careful = outcome_of(lambda each: remoting._decode_any_json(each, b"body", PEER, AT), raw)
    assert either == careful
    if isinstance(either, RemotingCommand):
        assert isinstance(careful, RemotingCommand)
        assert list(either.ext_fields) == list(careful.ext_fields)


numbers = st.one_of(
    st.integers(-5, 400),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, -(2**64), 10**30]),
    st.floats(),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=6), st.sampled_from(["JAVA", "GO", "COBOL"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.dictionaries(st.text(max_size=3), st.text(max_size=6), max_size=4),
    ),
    max_leaves=8,
)
sound = st.fixed_dictionaries(
    {"code": st.integers(0, 400), "opaque": st.integers(-9, 9)},
    optional={
        "flag": st.integers(0, 3),
        "version": st.integers(0, 500),
        "language": st.sampled_from(["JAVA", "GO", "COBOL"]),
        "remark": st.one_of(st.none(), st.text(max_size=9)),
        "extFields": st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=5),
        "serializeTypeCurrentRPC": st.just("JSON"),
    },
)
changed = st.builds(lambda header, name, value: header | {name: value}, sound, st.sampled_from(NAMES), values)
spelt = st.builds(
    lambda header, is_ascii, indent: json.dumps(header, ensure_ascii=is_ascii, indent=indent).encode(
        errors="surrogatepass"
    ),
    st.one_of(sound, changed),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)


@given(spelt)
@settings(max_examples=300)
def test_fast_and_full_header_parsers_agree_on_every_spelling(raw: bytes) -> None:
    assert_parsers_agree(raw)


@given(spelt, st.integers(0, 10_000), st.integers(0, 10_000), st.binary(max_size=3))
@settings(max_examples=300)
@example(PLAIN, 0, 0, b"\xef\xbb\xbf")
@example(PLAIN, 9, 9, b"0")
@example(PLAIN, 9, 9, b"-")
@example(PLAIN, 12, 12, b".0")
@example(PLAIN, 12, 12, b"e0")
@example(PLAIN, 30, 31, b"\xc0\xaf")
@example(PLAIN, 30, 31, b"\xed\xa0\x80")
@example(PLAIN, 30, 31, b"\0")
@example(PLAIN, 30, 30, b"\\")
@example(PLAIN, 30, 30, b"\\ud800")
@example(PLAIN, 30, 30, b"\\ud83d\\ude00")
def test_fast_and_full_header_parsers_agree_on_damaged_headers(raw: bytes, begin: int, length: int, put: bytes) -> None:
    begin %= len(raw)
    assert_parsers_agree(raw[:begin] + put + raw[begin + length % 3 :])


@pytest.mark.parametrize(
    "raw",
    [
        b'{"code":1,"opaque":2,"code":3}',
        b'{"code":1,"opaque":2,"code":"x"}',
        b'{"code":"x","opaque":2,"code":1}',
        b'{"code":1,"opaque":2,"extFields":{"a":"b"},"extFields":{"c":"d"}}',
        b'{"code":1,"opaque":2,"extFields":{"a":"b","a":"c"}}',
        b'{"code":1,"opaque":2,"extFields":{1:"b"}}',
        b'{"code":1,"opaque":2,"extFields":{"a":null}}',
        b'{"code":1,"opaque":2,"extFields":{"a":1}}',
        b'{"code":1,"opaque":2,"extFields":{"a":' + b"9" * 5000 + b"}}",
        b'{"code":1,"opaque":2,"extFields":{"a":-0,"b":true,"c":1.0,"d":1e2,"e":[1,{"f":null}]}}',
        b'{"code":1,"opaque":2,"other":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"code":1,"opaque":2,"other":99999999999999999999}',
        b'{"code":1,"opaque":2,"other":NaN}',
        b'{"code":1,"opaque":2,"language":""}',
        b'{"code":1,"opaque":2,"language":null,"flag":null,"version":null,"remark":null,"extFields":null}',
        b'{"code":1,"opaque":2,"serializeTypeCurrentRPC":7}',
        b'{"code":-0,"opaque":2}',
        b'{"code":1.0,"opaque":2}',
        b'{"code":1e0,"opaque":2}',
        b'{"code":"1","opaque":2}',
        b'{"code":true,"opaque":2}',
        b'{"code":1,"opaque":2}{}',
        b'{"code":1,"opaque":2} \t\r\n',
        b'{"code":1,"opaque":2}\x0b',
        b'{"opaque":2}',
        b"[]",
        b"{}",
        b"",
    ],
)
def test_fast_and_full_header_parsers_agree_on_unusual_headers(raw: bytes) -> None:
    assert_parsers_agree(raw)


def test_only_headers_in_the_usual_client_format_use_the_fast_parser() -> None:
    assert remoting._decode_plain_json(PLAIN, b"") is not None
    assert remoting._decode_plain_json(PLAIN.replace(b"310", b"310.5"), b"") is None


def test_a_large_header_is_accepted_only_in_the_usual_client_format() -> None:
    large = "p" * (64 << 10)
    odd = b'{"code":310,"opaque":7,"x":[' + b",".join([b"[]"] * (16 << 10)) + b"]}"

    plain = decode_json_header(
        b'{"code":310,"opaque":7,"extFields":{"i":"%s"}}' % large.encode(), b"", file=PEER, offset=8
    )
    assert plain.ext_fields == {"i": large}
    with pytest.raises(
        CorruptFileError, match="header: expected plain JSON, or 32768 bytes or fewer, found 49181 bytes"
    ):
        decode_json_header(odd, b"", file=PEER, offset=AT)
