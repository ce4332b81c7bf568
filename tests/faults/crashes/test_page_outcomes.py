import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.faults.crashes.page_outcomes import (
    FILLINGS,
    DirtyPage,
    PageOutcome,
    Tears,
    apply_outcome,
    apply_version,
    garbage_bytes,
)

SECTOR = 4
PAGE = 16
WHOLE = Tears()


def outcome_of_writes(
    page_outcome: PageOutcome, writes: list[tuple[int, int, bytes]], size_bytes: int = 48
) -> tuple[bytes, Tears]:
    durable = b"." * size_bytes
    page = bytearray(durable[PAGE : 2 * PAGE])
    tears = apply_outcome(page, PAGE, writes, page_outcome, SECTOR, durable)
    return durable[:PAGE] + bytes(page) + durable[2 * PAGE :], tears


def test_version_k_has_the_first_k_writes_within_the_page() -> None:
    writes = [(1, 10, b"a" * 30), (2, 20, b"bb")]

    assert outcome_of_writes(PageOutcome(0), writes) == (b"." * 48, WHOLE)
    assert outcome_of_writes(PageOutcome(1), writes) == (b"." * 16 + b"a" * 16 + b"." * 16, WHOLE)
    assert outcome_of_writes(PageOutcome(2), writes) == (b"." * 16 + b"aaaabb" + b"a" * 10 + b"." * 16, WHOLE)


def test_a_torn_page_takes_each_sector_from_one_of_two_versions() -> None:
    writes = [(1, 16, b"a" * 16), (2, 16, b"b" * 16)]

    assert outcome_of_writes(PageOutcome(1, 2, 0b0101), writes) == (
        b"." * 16 + b"bbbbaaaabbbbaaaa" + b"." * 16,
        Tears(page=True),
    )


def test_a_page_whose_versions_agree_in_every_sector_is_not_torn() -> None:
    writes = [(1, 16, b"aaaa")]

    assert outcome_of_writes(PageOutcome(0, 1, 0b0001), writes) == (b"." * 16 + b"aaaa" + b"." * 28, WHOLE)
    assert outcome_of_writes(PageOutcome(0, 1, 0b0010), writes) == (b"." * 48, WHOLE)
    assert outcome_of_writes(PageOutcome(1, 1, 0b1111), writes)[1] == WHOLE


def test_a_torn_sector_is_newer_before_the_tear_and_older_after_it() -> None:
    writes = [(1, 16, b"a" * 16), (2, 16, b"b" * 16)]
    torn = (b"." * 16 + b"aaaa" + b"bbba" + b"aaaa" * 2 + b"." * 16, Tears(page=True, sectors=1))

    assert outcome_of_writes(PageOutcome(1, 2, torn_at=7), writes) == torn
    content, tears = outcome_of_writes(PageOutcome(2, 1, torn_at=7), writes)
    assert content[16:32] == b"bbbbbbba" + b"bbbb" * 2
    assert tears == Tears(page=True, sectors=1)


def test_a_tear_at_the_first_byte_or_between_equal_bytes_is_not_torn() -> None:
    writes = [(1, 16, b"aaaa")]

    assert outcome_of_writes(PageOutcome(1, 0, torn_at=4), writes) == outcome_of_writes(PageOutcome(1), writes)
    assert outcome_of_writes(PageOutcome(1, 0, torn_at=6), writes) == outcome_of_writes(PageOutcome(1), writes)
    assert outcome_of_writes(PageOutcome(1, 1, torn_at=2), writes) == outcome_of_writes(PageOutcome(1), writes)
    assert outcome_of_writes(PageOutcome(1, 0, torn_at=2), writes)[1] == Tears(page=True, sectors=1)


def test_a_tear_after_the_end_of_a_page_has_no_effect() -> None:
    content = bytearray(b"." * 6)
    tears = apply_outcome(content, 0, [(1, 0, b"aaaaaa")], PageOutcome(1, 0, torn_at=10), SECTOR)

    assert (bytes(content), tears) == (b"aaaaaa", WHOLE)


def test_only_sectors_in_flight_contain_garbage() -> None:
    writes = [(1, 20, b"aa")]
    content, tears = outcome_of_writes(PageOutcome(0, 1, garbage=0b1111, filling=2), writes)

    assert content == b"." * 20 + b"\xff" * 4 + b"." * 24
    assert tears == Tears(page=True, garbage=1)


def test_garbage_equal_to_a_version_is_not_damage() -> None:
    content, tears = outcome_of_writes(PageOutcome(0, 1, garbage=0b0001, filling=1), [(1, 16, bytes(4))])

    assert content == b"." * 16 + bytes(4) + b"." * 28
    assert tears == WHOLE


def test_a_page_with_one_version_has_no_sector_in_flight() -> None:
    writes = [(1, 16, b"a" * 16)]

    assert outcome_of_writes(PageOutcome(1, 1, 0, 3, 0b1111, 2), writes) == outcome_of_writes(PageOutcome(1), writes)


def test_draws_about_a_page_are_labelled_with_path_and_number() -> None:
    assert DirtyPage("/s/log", 3, [], 0).label == "page /s/log#3"


@given(
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), min_size=1, max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 15),
)
def test_every_sector_has_one_of_the_two_versions(
    drawn: list[tuple[int, bytes]], moment: int, other: int, sectors: int
) -> None:
    writes = [(number, at, data) for number, (at, data) in enumerate(drawn) if at < 32 and at + len(data) > 16]
    page_outcome = PageOutcome(min(moment, len(writes)), min(other, len(writes)), sectors)
    content, _ = outcome_of_writes(page_outcome, writes, 64)
    first, _ = outcome_of_writes(PageOutcome(page_outcome.version), writes, 64)
    second, _ = outcome_of_writes(PageOutcome(page_outcome.other), writes, 64)

    for sector in range(4):
        place = slice(16 + sector * SECTOR, 16 + (sector + 1) * SECTOR)
        assert content[place] == (second if sectors >> sector & 1 else first)[place]
    assert content[:16] + content[32:] == b"." * 48


def test_a_write_beyond_the_surviving_length_is_dropped() -> None:
    content = bytearray(b"abc")
    apply_version(content, 0, [(1, 1, b"XY"), (2, 5, b"ZZZ")])

    assert content == b"aXY"


FILE = b"".join(bytes([number]) * 8 for number in range(5))


def test_garbage_number_1_is_zeros_and_number_2_is_erased_flash() -> None:
    assert garbage_bytes(1, FILE, 8, 16, 8) == bytes(8)
    assert garbage_bytes(2, FILE, 8, 16, 8) == b"\xff" * 8


def test_even_garbage_numbers_are_random_bytes_from_number_and_offset() -> None:
    one = garbage_bytes(4, FILE, 8, 16, 8)

    assert len(one) == 8
    assert one == garbage_bytes(4, b"another file", 8, 16, 8)
    assert len({one, garbage_bytes(6, FILE, 8, 16, 8), garbage_bytes(4, FILE, 16, 24, 8)}) == 3


def test_odd_garbage_numbers_are_the_content_of_another_sector() -> None:
    assert garbage_bytes(3, FILE, 8, 16, 8) == b"\2" * 8
    assert garbage_bytes(5, FILE, 24, 32, 8) == b"\0" * 8


def test_garbage_fits_a_short_last_sector() -> None:
    assert garbage_bytes(3, b"0123456789", 0, 8, 8) == b"89" + bytes(6)
    assert garbage_bytes(3, b"0123456789", 8, 10, 8) == b"01"


@pytest.mark.parametrize("filling", [0, FILLINGS, -1])
def test_garbage_number_0_is_refused(filling: int) -> None:
    with pytest.raises(AssertionError):
        garbage_bytes(filling, FILE, 0, 8, 8)
