from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.sim.process import cpu_limit
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats import side_json
from tornlog.store.formats.side_json import (
    TableEncoder,
    decode_side_json,
    encode_side_json,
    numbered_offsets,
    offset_of,
    table_of,
)

FILE = "config/x.json"


def test_integer_keyed_entries_are_written_on_one_line_and_others_on_separate_lines() -> None:
    offsets = {"A@g": {0: 12, 1: 7}, "B@g": {}}
    assert encode_side_json({"offsetTable": offsets}) == (
        b'{\n\t"offsetTable":{\n\t\t"A@g":{0:12,1:7\n\t\t},\n\t\t"B@g":{}\n\t}\n}'
    )
    assert encode_side_json({"a": {"x": -1}, "b": {}}) == b'{\n\t"a":{\n\t\t"x":-1\n\t},\n\t"b":{}\n}'


def test_integer_keys_are_parsed_with_and_without_quotes_and_spaces() -> None:
    plain = b'{"t":{1:6,2:7}}'
    quoted = b'{"t":{"1":6,"2":7}}'
    spaced = b' {\n"t" : {\t1 : 6 ,\r\n 2\n:7 } }\n'
    for raw in (plain, quoted, spaced):
        assert decode_side_json(raw, file=FILE) == {"t": {"1": 6, "2": 7}}


def test_a_string_that_looks_like_an_integer_key_is_unchanged() -> None:
    text = '{"{1:2":"{1:,2:\\"{3:","[[[[":{-1:0}}'
    assert decode_side_json(text.encode(), file=FILE) == {"{1:2": '{1:,2:"{3:', "[[[[": {"-1": 0}}


def test_side_json_survives_encoding_and_decoding() -> None:
    fields = {"offsetTable": {'topic "é"\\{1:@g': {0: (1 << 63) - 1, 3: -(1 << 63)}}}
    found = decode_side_json(encode_side_json(fields), file=FILE)
    assert found == {"offsetTable": {'topic "é"\\{1:@g': {"0": (1 << 63) - 1, "3": -(1 << 63)}}}


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b"", 0),
        (b'{"t":{1:6,2:', 12),
        (b'{"t":{1:6,2:7', 13),
        ('{"é":{1:6,2:x}}'.encode(), 13),
        (b'{"t":{1:6}}x', 11),
        (b"{1:1,[2:3]}", 5),
        (b'{"t":"', 5),
        (b'{"t":\xff}', 5),
        (b"\0\0\0\0", 0),
    ],
)
def test_the_error_for_damaged_side_json_names_the_byte_where_parsing_stopped(raw: bytes, offset: int) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_side_json(raw, file=FILE)
    assert (caught.value.file, caught.value.offset) == (FILE, offset)


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"null",
        b"7",
        b'{"t":NaN}',
        b'{"t":-Infinity}',
        b'{"t":9223372036854775808}',
        b'{"t":-9223372036854775809}',
        b'{"t":' + b"9" * 5000 + b"}",
    ],
)
def test_invalid_side_json_values_are_refused(raw: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_side_json(raw, file=FILE)


def test_the_nesting_depth_of_side_json_is_checked_before_parsing() -> None:
    with pytest.raises(CorruptFileError, match="32 levels or fewer"):
        decode_side_json(b'{"t":' + b"[" * 100_000, file=FILE)
    deep = b'{"t":' + b"[" * 31 + b"]" * 31 + b"}"
    assert "t" in decode_side_json(deep, file=FILE)
    assert "t" in decode_side_json(b'{"t":[' + b"[],{}," * 100 + b"0]}", file=FILE)


def test_an_unterminated_string_with_many_quotes_is_refused_quickly() -> None:
    with cpu_limit(20.0), pytest.raises(CorruptFileError, match="Unterminated string"):
        decode_side_json(b'{"t":"' + b'\\"' * 1_000_000, file=FILE)  # trying each quote to the end would take an hour


@pytest.mark.parametrize(
    ("raw", "offset", "found"),
    [
        (b'{"t":{"\\ud800":{"0":1}}}', 7, "d800"),
        (b'{"t":"\\uDEAD\\ud83d"}', 6, "dead"),
        ('{"é":"\\ud83d\\ude00","t":["\\udead"]}'.encode(), 27, "dead"),
    ],
)
def test_an_unpaired_surrogate_is_refused(raw: bytes, offset: int, found: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_side_json(raw, file=FILE)

    assert (caught.value.offset, caught.value.field, caught.value.found) == (offset, "JSON", found)


def test_an_escaped_surrogate_pair_decodes_to_one_character() -> None:
    assert decode_side_json(b'{"t":"\\ud83d\\ude00"}', file=FILE) == {"t": "😀"}


def test_the_error_for_an_empty_value_shows_it_quoted() -> None:
    with pytest.raises(CorruptFileError, match='integer keys, found ""'):
        numbered_offsets({"": 1}, "t", file=FILE)
    with pytest.raises(CorruptFileError, match='an integer, found ""'):
        offset_of("", "t", file=FILE)


def test_side_json_errors_name_the_offset_in_the_enclosing_file() -> None:
    for raw, offset in ((b'{"t":', 105), (b'{"t":"\xff"}', 106), (b'{"t":' + b"[" * 40, 136), (b"[]", 100)):
        with pytest.raises(CorruptFileError) as caught:
            decode_side_json(raw, file=FILE, file_offset=100)
        assert caught.value.offset == offset


def test_the_size_of_side_json_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_json, "SIDE_JSON_BYTES_MAX", 10)
    with pytest.raises(CorruptFileError, match="file size: expected 10 or less, found 11"):
        decode_side_json(b'{"t":{1:2}}', file=FILE)


def test_a_missing_or_null_table_in_side_json_is_empty() -> None:
    assert table_of({}, "t", file=FILE) == {}
    assert table_of({"t": None}, "t", file=FILE) == {}
    with pytest.raises(CorruptFileError, match="t: expected an object, found list"):
        table_of({"t": []}, "t", file=FILE)


def test_offsets_must_have_integer_keys_and_values_and_are_sorted() -> None:
    assert list(numbered_offsets({"10": 1, "2": 5, "-1": 0}, "t", file=FILE).items()) == [(-1, 0), (2, 5), (10, 1)]
    with pytest.raises(CorruptFileError, match="integer keys, found x"):
        numbered_offsets({"x": 1}, "t", file=FILE)
    for value in ("1", True, 1.5, None, {}):
        with pytest.raises(CorruptFileError, match="expected an integer"):
            numbered_offsets({"1": value}, "t", file=FILE)
    assert offset_of(5, "t", file=FILE) == 5


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)), max_size=8))
def test_a_cached_table_is_encoded_like_an_uncached_one(tables: list[dict[str, int]]) -> None:
    values = [{"number": number, "inner": {number: 1}} for number in range(4)]
    encoder = TableEncoder[dict[str, Any]](lambda value: value, depth=2)
    for table in tables:
        named = {name: values[number] for name, number in table.items()}
        plain = {name: named[name] for name in sorted(named)}
        assert encode_side_json({"of": encoder.encode_table(named)}) == encode_side_json({"of": plain})


def test_a_value_is_encoded_once_while_it_remains_in_its_table() -> None:
    encoded: list[int] = []

    def members_of(value: list[int]) -> dict[str, int]:
        encoded.extend(value)
        return {"first": value[0]}

    first, second = [1], [2]
    encoder = TableEncoder[list[int]](members_of, depth=2)
    for table in ({"a": first}, {"a": first, "b": second}, {"b": second}, {"a": first, "b": [3]}):
        encoder.encode_table(table)
    assert encoded == [1, 2, 1, 3]
