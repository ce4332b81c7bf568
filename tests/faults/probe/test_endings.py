"""Texts about the ends of processes."""

import pytest

from tornlog.faults.probe.endings import exit_text, signal_or_code_text


@pytest.mark.parametrize(
    ("code", "short", "long"),
    [(0, "0", "exit code 0"), (3, "3", "exit code 3"), (-11, "SIGSEGV", "SIGSEGV"), (-35, "signal 35", "signal 35")],
)
def test_a_signal_is_shown_by_name_or_by_number_if_it_has_no_name(code: int, short: str, long: str) -> None:
    assert (signal_or_code_text(code), exit_text(code)) == (short, long)
