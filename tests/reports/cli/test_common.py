"""Long measurements say how far they are where there is no terminal."""

import pytest

from tornlog.reports.cli import common
from tornlog.reports.cli.common import followed


def test_without_a_terminal_lines_say_how_far_it_is_at_most_one_in_a_while_and_the_last_in_any_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, 6.0, 7.0])
    monkeypatch.setattr(common, "monotonic", lambda: next(times))

    assert list(followed("simulating", ["hdd", "ssd", "nvme"], 3, str.upper)) == ["hdd", "ssd", "nvme"]
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == ["simulating: 2 of 3, SSD", "simulating: 3 of 3, NVME"]


def test_of_what_nobody_knows_the_number_it_is_said_how_much_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 9.0])
    monkeypatch.setattr(common, "monotonic", lambda: next(times))

    assert list(followed("changing assumptions", [1], None)) == [1]
    assert capsys.readouterr().err == "changing assumptions: 1\n"
