import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.formats import java_hash as module
from tornlog.store.formats.java_hash import KNOWN_CHARACTERS_MAX, index_hash, java_hash


@pytest.mark.parametrize(
    ("text", "hashed", "in_index", "slot"),
    [
        ("A", 65, 65, 65),
        ("TagA", 2598919, 2598919, 2598919),
        ("T1#k1", 79072524, 79072524, 4072524),
        ("TopicTest#key", 85128477, 85128477, 128477),
        ("polygenelubricants", -(2**31), 0, 0),
        ("中文#键", 621223909, 621223909, 1223909),
    ],
)
def test_java_hashes_equal_the_vectors_of_the_specification(text: str, hashed: int, in_index: int, slot: int) -> None:
    assert java_hash(text) == hashed
    assert index_hash(text) == in_index
    assert index_hash(text) % 5_000_000 == slot


def test_an_index_hash_is_the_absolute_value_of_a_java_hash() -> None:
    assert (java_hash("single"), index_hash("single")) == (-902265784, 902265784)


def test_a_character_outside_the_basic_plane_is_hashed_as_two_surrogates() -> None:
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00 == java_hash("\ud83d\ude00")


@settings(max_examples=100)
@given(st.text(st.characters(), max_size=200))
def test_a_java_hash_is_the_sum_given_in_javas_documentation(text: str) -> None:
    raw = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units))

    assert java_hash(text) == (total + 2**31) % 2**32 - 2**31


def test_java_hashes_are_cached_only_for_short_texts() -> None:
    longest = "k" * KNOWN_CHARACTERS_MAX
    for text in (longest, longest + "k"):
        assert java_hash(text) == java_hash(text)

    assert longest in module._known
    assert longest + "k" not in module._known


def test_the_number_of_cached_java_hashes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_MAX", 10)
    for number in range(100):
        java_hash(f"some text {number}")

    assert len(module._known) <= 10
