import pytest

from tornlog.reports.durations import duration


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.25, "250 ns"), (1, "1 µs"), (250, "250 µs"), (1_500, "1.5 ms"), (12_345, "12.3 ms"), (2e6, "2 s")],
)
def test_durations_read_as_people_say_them(us: float, text: str) -> None:
    assert duration(us) == text
