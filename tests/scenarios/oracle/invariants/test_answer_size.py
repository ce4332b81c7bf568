"""READ finds answers to pulls with more messages than the request or the settings permit."""

import pytest

from tornlog.scenarios.oracle.invariants.consumers import check_answer_size
from tornlog.store.config import StoreConfig

CONFIG = StoreConfig(
    "/store",
    max_transfer_count_on_message_in_memory=5,
    max_transfer_count_on_message_in_disk=2,
    max_transfer_bytes_on_message_in_memory=400,
    max_transfer_bytes_on_message_in_disk=100,
)


@pytest.mark.parametrize(
    ("asked", "sizes", "wrong"),
    [
        (32, [80] * 5, 0),
        (32, [60] * 6, 1),
        (3, [60] * 4, 1),
        (0, [60], 0),
        (-1, [60, 60], 1),
        (32, [900], 0),
        (32, [200, 201], 1),
    ],
)
def test_an_answer_with_too_many_messages_or_bytes_is_a_violation(asked: int, sizes: list[int], wrong: int) -> None:
    found = list(check_answer_size(CONFIG, ("T0", 0), asked, [bytes(size) for size in sizes]))
    assert [violation.summary for violation in found] == ["a pull of T0/0 is answered with too many messages"] * wrong
