import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.formats import index_key
from tornlog.store.formats.index_key import key_hash, key_hashes, keys_of, may_have_keys
from tornlog.store.formats.java_hash import index_hash, java_hash
from tornlog.store.formats.properties import decode_properties, encode_properties
from tornlog.store.formats.scan import ScannedRecord


@pytest.mark.parametrize(
    ("topic", "key", "expected"), [("T1", "k1", 79072524), ("TopicTest", "key", 85128477), ("中文", "键", 621223909)]
)
def test_key_hashes_equal_those_of_the_specification(topic: str, key: str, expected: int) -> None:
    assert key_hash(topic, key.encode()) == expected


def test_the_key_hash_without_an_absolute_value_is_zero() -> None:
    assert java_hash("Idx0#m15043KJCDN") == -(1 << 31)
    assert key_hash("Idx0", b"m15043KJCDN") == 0


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=150))
def test_the_key_hash_of_any_topic_and_key_equals_javas(topic: str, key: str) -> None:
    raw = key.encode(errors="surrogatepass")
    text = raw.decode(errors="surrogateescape")
    assert key_hash(topic, raw) == index_hash(f"{topic}#{text}")


def test_hashes_of_topics_dropped_from_the_cache_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_key, "_TOPICS_MAX", 2)
    first = [key_hash(f"topic-{number}", b"k") for number in range(7)]
    assert first == [index_hash(f"topic-{number}#k") for number in range(7)]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, []),
        ({"TAGS": "KEYS"}, []),
        ({"KEYS": "a"}, [b"a"]),
        ({"KEYS": "a b", "UNIQ_KEY": "u"}, [b"u", b"a", b"b"]),
        ({"KEYS": "  a  a ", "UNIQ_KEY": "a"}, [b"a", b"a", b"a"]),
        ({"KEYS": "  "}, []),
        ({"UNIQ_KEY": "u v"}, [b"u v"]),
        ({"MYKEYS": "x"}, []),
    ],
)
def test_the_keys_of_a_message_are_the_unique_key_and_space_separated_keys(
    properties: dict[str, str], expected: list[bytes]
) -> None:
    raw = encode_properties(properties).encode()
    assert keys_of(raw) == expected
    if expected:
        assert may_have_keys(record_of(raw, 0))


_PIECES = ["KEYS\1", "UNIQ_KEY\1", "MYKEYS\1", "TAGS\1", "a", "b ", "  ", "\2"]


@given(st.lists(st.sampled_from(_PIECES), max_size=12))
def test_keys_read_from_raw_properties_equal_those_of_decoded_properties(pieces: list[str]) -> None:
    text = "".join(pieces)
    properties = decode_properties(text)
    unique, user = properties.get("UNIQ_KEY"), properties.get("KEYS", "")
    wanted = [*([unique] if unique else []), *(key for key in user.split(" ") if key)]
    assert keys_of(text.encode()) == [key.encode() for key in wanted]


@given(st.sampled_from(["T", "U"]), st.lists(st.sampled_from(_PIECES), max_size=12))
def test_key_hashes_of_a_message_are_in_the_order_of_its_keys(topic: str, pieces: list[str]) -> None:
    properties = "".join(pieces).encode()
    expected = tuple(key_hash(topic, key) for key in keys_of(properties))

    assert key_hashes(topic, properties) == expected
    assert key_hashes(topic, properties) == expected  # from the cache


@pytest.mark.parametrize(("sys_flag", "expected"), [(0, True), (4, True), (8, True), (12, False), (0x1C, False)])
def test_all_records_except_roll_backs_may_have_keys(sys_flag: int, expected: bool) -> None:
    assert may_have_keys(record_of(b"KEYS\x01a", sys_flag)) is expected


def record_of(properties: bytes, sys_flag: int) -> ScannedRecord:
    return ScannedRecord(0, 91, "T", 0, 0, sys_flag, 0, properties)


def test_the_hash_of_a_too_long_topic_is_not_cached() -> None:
    longest = "t" * 127
    for topic in (longest, longest + "t"):
        assert key_hash(topic, b"key") == index_hash(f"{topic}#key")

    assert longest in index_key._topics
    assert longest + "t" not in index_key._topics
