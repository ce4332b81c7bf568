"""Texts about the ends of processes."""

import pytest

from tornlog.faults.probe.endings import ended_with, exit_text


@pytest.mark.parametrize(
    ("code", "short", "long"),
    [(0, "0", "exit code 0"), (3, "3", "exit code 3"), (-11, "SIGSEGV", "SIGSEGV"), (-35, "signal 35", "signal 35")],
)
def test_a_signal_is_named_and_one_without_a_name_has_its_number(code: int, short: str, long: str) -> None:
    assert (ended_with(code), exit_text(code)) == (short, long)
