"""Story lines on a terminal and in a pipe."""

from io import StringIO

from rich.console import Console

from tornlog.faults.simulation.prose import print_line


def printed(line: str) -> str:
    text = StringIO()
    print_line(Console(file=text, width=80), 2, line)
    return text.getvalue()


def test_control_characters_are_replaced_by_dots() -> None:
    assert printed("a\x1b[2Jb") == "  a·[2Jb\n"


def test_a_very_long_line_is_truncated() -> None:
    assert printed("ab" * 1_500) == f"  {'ab' * 1_500}\n"
    assert printed("ab" * 2_000) == f"  {'ab' * 1_500}… (4,000 characters)\n"
