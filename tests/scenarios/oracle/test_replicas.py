from types import SimpleNamespace
from typing import Any

import pytest

from tornlog.scenarios.oracle.replicas import log_bytes


class Log:
    """A log of five segments of 100 bytes, each with its number as every byte. Records which segments are read."""

    def __init__(self, readable_of_last: int = 100) -> None:
        self.read: list[int] = []
        self.segments: Any = tuple(
            SimpleNamespace(
                base_offset=100 * number,
                readable=SimpleNamespace(get=lambda number=number: self._read(number, readable_of_last)),
                file=SimpleNamespace(view=lambda begin, end, number=number: bytes([number]) * (end - begin)),
            )
            for number in range(2, 7)
        )

    def _read(self, number: int, readable_of_last: int) -> int:
        self.read.append(number)
        return readable_of_last if number == 6 else 100


@pytest.mark.parametrize(
    ("start", "end", "expected", "read"),
    [
        (200, 200, b"", []),
        (299, 301, b"\2\3", [2, 3]),
        (300, 400, b"\3" * 100, [3]),
        (0, 202, b"\2\2", [2]),
        (0, 200, b"", []),
        (598, 900, b"\5\5" + b"\6" * 7, [5, 6]),
        (700, 800, b"", [6]),
    ],
)
def test_only_segments_of_the_range_are_read(start: int, end: int, expected: bytes, read: list[int]) -> None:
    log: Any = Log(readable_of_last=7)
    assert log_bytes(log, start, end) == expected
    assert log.read == read


def test_a_log_without_segments_has_no_bytes() -> None:
    empty: Any = SimpleNamespace(segments=())
    assert log_bytes(empty, 0, 100) == b""
