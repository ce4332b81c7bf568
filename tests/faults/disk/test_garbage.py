import pytest

from tornlog.faults.crashes.page_outcomes import FILLINGS, garbage

FILE = b"".join(bytes([number]) * 8 for number in range(5))


def test_the_first_two_kinds_are_zeros_and_erased_flash() -> None:
    assert garbage(1, FILE, 8, 16, 8) == bytes(8)
    assert garbage(2, FILE, 8, 16, 8) == b"\xff" * 8


def test_even_ones_are_bytes_of_chance_that_depend_on_number_and_place_only() -> None:
    one = garbage(4, FILE, 8, 16, 8)

    assert len(one) == 8
    assert one == garbage(4, b"another file", 8, 16, 8)
    assert len({one, garbage(6, FILE, 8, 16, 8), garbage(4, FILE, 16, 24, 8)}) == 3


def test_odd_ones_are_the_bytes_of_another_sector() -> None:
    assert garbage(3, FILE, 8, 16, 8) == b"\2" * 8
    assert garbage(5, FILE, 24, 32, 8) == b"\0" * 8


def test_a_short_last_sector_is_filled_to_its_size_and_a_sector_beyond_it_with_zeros() -> None:
    assert garbage(3, b"0123456789", 0, 8, 8) == b"89" + bytes(6)
    assert garbage(3, b"0123456789", 8, 10, 8) == b"01"


@pytest.mark.parametrize("filling", [0, FILLINGS, -1])
def test_a_number_that_stands_for_none_is_a_mistake(filling: int) -> None:
    with pytest.raises(AssertionError):
        garbage(filling, FILE, 0, 8, 8)
