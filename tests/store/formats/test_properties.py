import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.formats.properties import (
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    decode_properties,
    encode_properties,
    find_property,
    map_buckets,
    rebuild_properties,
)

WORDS = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1, max_size=6)
PIECES = st.text(st.sampled_from("AB\x01\x02é\x00"), max_size=24)


def test_properties_end_with_a_separator_only_in_the_trailing_dialect() -> None:
    properties = {PROPERTY_TAGS: "A", PROPERTY_KEYS: "k1"}

    assert encode_properties(properties) == "TAGS\x01A\x02KEYS\x01k1"
    assert encode_properties(properties, trailing_separator=True) == "TAGS\x01A\x02KEYS\x01k1\x02"


def test_no_properties_are_an_empty_string_in_both_dialects() -> None:
    assert encode_properties({}) == encode_properties({}, trailing_separator=True) == ""
    assert decode_properties("") == {}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("TAGS\x01A\x02KEYS\x01k1", {"TAGS": "A", "KEYS": "k1"}),
        ("TAGS\x01A\x02KEYS\x01k1\x02", {"TAGS": "A", "KEYS": "k1"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("a\x01\x01", {"a": "\x01"}),
        ("a\x01", {}),
        ("\x01b", {}),
        ("\x01b\x01c", {}),
        ("abc", {}),
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
        ("a\x01b\x02a\x01c", {"a": "c"}),
        ("a\x01b\x02a\x01", {"a": "b"}),
    ],
)
def test_decoding_properties_keeps_only_entries_with_a_name_and_a_value(text: str, properties: dict[str, str]) -> None:
    assert decode_properties(text) == properties


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"TAGS\x01A", b"A"),
        (b"WAIT\x01true\x02TAGS\x01A\x02", b"A"),
        (b"XTAGS\x01A", None),
        (b"XTAGS\x01A\x02TAGS\x01B\x02YTAGS\x01C", b"B"),
        (b"TAGS\x01A\x02TAGS\x01B", b"B"),
        (b"TAGS\x01A\x02TAGS\x01", b"A"),
        (b"TAGS\x01A\x02TAGS\x01\x02", b"A"),
        (b"KEYS\x01TAGS\x01A", None),
        (b"TAGS", None),
        (b"TAGS\x01", None),
        (b"TAGS\x01A\x01B", b"A\x01B"),
        (b"", None),
    ],
)
def test_finding_one_property_follows_the_rules_of_decoding(raw: bytes, value: bytes | None) -> None:
    assert find_property(raw, b"TAGS") == value


@settings(max_examples=100)
@given(st.dictionaries(WORDS, WORDS, max_size=6), st.booleans())
def test_properties_survive_encoding_and_decoding_in_either_dialect(properties: dict[str, str], trailing: bool) -> None:
    assert decode_properties(encode_properties(properties, trailing_separator=trailing)) == properties


@settings(max_examples=100)
@given(PIECES, st.sampled_from(["A", "B", "AA", "AB", "é"]))
def test_finding_one_property_agrees_with_decoding_all(text: str, name: str) -> None:
    found = find_property(text.encode(), name.encode())

    assert decode_properties(text).get(name) == (None if found is None else found.decode())


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("TAGS KEYS DELAY REAL_TOPIC REAL_QID", "REAL_TOPIC KEYS DELAY TAGS REAL_QID"),
        ("DELAY WAIT PGROUP", "DELAY WAIT PGROUP"),  # one bucket: in order of insertion
        ("PGROUP WAIT DELAY", "PGROUP WAIT DELAY"),
        ("", ""),
    ],
)
def test_rebuilt_properties_have_the_order_of_a_java_map(names: str, order: str) -> None:
    rebuilt = rebuild_properties(dict.fromkeys(names.split(), "v"))
    assert rebuilt == encode_properties(dict.fromkeys(order.split(), "v"))


def test_a_java_map_doubles_its_buckets_above_three_quarters() -> None:
    names = ["KEYS", "TRAN_MSG", *(f"n{number}" for number in range(10))]
    twelve = rebuild_properties(dict.fromkeys(names, "v"))
    thirteen = rebuild_properties(dict.fromkeys([*names, "n10"], "v"))
    assert twelve.index("KEYS") < twelve.index("TRAN_MSG")  # buckets 7 and 9 of 16
    assert thirteen.index("TRAN_MSG") < thirteen.index("KEYS")  # buckets 9 and 23 of 32


def test_the_order_of_property_names_reveals_the_bucket_count_of_their_map() -> None:
    assert map_buckets(["KEYS", "DELAY", "TAGS"]) == 16
    assert map_buckets(["UNIQ_KEY", "DELAY", "TAGS", "KEYS"]) == 8
    assert map_buckets(["TRAN_MSG", "REAL_TOPIC", "KEYS", "UNIQ_KEY"]) == 32
    assert map_buckets(["TAGS", "UNIQ_KEY", "KEYS", "DELAY"]) == 16  # no map gave this order
    assert map_buckets([]) == 16
