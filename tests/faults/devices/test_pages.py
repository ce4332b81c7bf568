import pytest

from tornlog.faults.devices.pages import FileBlocks, Placement


def test_a_preallocated_file_is_contiguous() -> None:
    placement = Placement(1_000)
    placement.reserve(10)
    file = FileBlocks(ahead=placement.reserve(100))

    assert placement.place(file, [0, 1, 5]) == [(10, 2), (15, 1)]
    assert placement.reserve(1) == 110


def test_pages_written_back_together_get_adjacent_blocks() -> None:
    placement, one, other = Placement(1_000), FileBlocks(), FileBlocks()

    assert placement.place(one, [0, 1]) == [(0, 2)]
    assert placement.place(other, [0]) == [(2, 1)]
    assert placement.place(one, [1, 2]) == [(1, 1), (3, 1)]  # the tail stays in place, and the new page follows
    assert one.block_of(2) == 3
    assert one.block_of(3) is None


def test_a_growing_file_with_a_reservation_is_contiguous() -> None:
    placement, one, other = Placement(100_000, room_blocks=100), FileBlocks(), FileBlocks()

    assert placement.place(one, [0]) == [(0, 1)]
    assert placement.place(other, [0, 1]) == [(100, 2)]
    assert placement.place(one, range(1, 102)) == [(1, 99), (200, 2)]


def test_a_write_to_a_full_device_raises_an_error() -> None:
    placement = Placement(10)
    placement.reserve(10)

    with pytest.raises(ValueError, match="expected at most 10 blocks in use, found 11"):
        placement.place(FileBlocks(), [0])
