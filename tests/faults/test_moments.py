from hypothesis import given
from hypothesis import strategies as st

from tornlog.faults.moments import DirtyPage, Survivor, lay_survivor

SECTOR = 4
PAGE = 16


def survive(
    survivor: Survivor, writes: list[tuple[int, int, bytes]], size_bytes: int = 48
) -> tuple[bytes, bool]:
    content = bytearray(b"." * size_bytes)
    torn = lay_survivor(content, PAGE, 2 * PAGE, writes, survivor, SECTOR)
    return bytes(content), torn


def test_moment_k_has_the_first_k_writes_and_no_byte_outside_of_the_page() -> None:
    writes = [(1, 10, b"a" * 30), (2, 20, b"bb")]

    assert survive(Survivor(0), writes) == (b"." * 48, False)
    assert survive(Survivor(1), writes) == (b"." * 16 + b"a" * 16 + b"." * 16, False)
    assert survive(Survivor(2), writes) == (b"." * 16 + b"aaaabb" + b"a" * 10 + b"." * 16, False)


def test_a_torn_page_takes_each_sector_from_one_of_two_moments() -> None:
    writes = [(1, 16, b"a" * 16), (2, 16, b"b" * 16)]

    assert survive(Survivor(1, 2, 0b0101), writes) == (b"." * 16 + b"bbbbaaaabbbbaaaa" + b"." * 16, True)


def test_a_page_whose_differing_sectors_agree_is_not_torn() -> None:
    writes = [(1, 16, b"aaaa")]

    assert survive(Survivor(0, 1, 0b0001), writes) == (b"." * 16 + b"aaaa" + b"." * 28, False)
    assert survive(Survivor(0, 1, 0b0010), writes) == (b"." * 48, False)
    assert survive(Survivor(1, 1, 0b1111), writes)[1] is False


def test_draws_about_a_page_are_labelled_with_path_and_number() -> None:
    assert DirtyPage("/s/log", 3, [], 0).label == "page /s/log#3"


@given(
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), min_size=1, max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 15),
)
def test_every_sector_is_that_of_one_of_the_two_moments(
    drawn: list[tuple[int, bytes]], moment: int, other: int, sectors: int
) -> None:
    writes = [
        (number, at, data) for number, (at, data) in enumerate(drawn) if at < 32 and at + len(data) > 16
    ]
    survivor = Survivor(min(moment, len(writes)), min(other, len(writes)), sectors)
    content, _ = survive(survivor, writes, 64)
    first, _ = survive(Survivor(survivor.moment), writes, 64)
    second, _ = survive(Survivor(survivor.other), writes, 64)

    for sector in range(4):
        place = slice(16 + sector * SECTOR, 16 + (sector + 1) * SECTOR)
        assert content[place] == (second if sectors >> sector & 1 else first)[place]
    assert content[:16] + content[32:] == b"." * 48
