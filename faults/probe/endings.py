"""Ends of processes: exit codes and signals as text."""

import signal
from collections.abc import Sequence

SHOWN_LINES_MAX, _SHOWN_CHARACTERS_MAX = 5, 200
"""Maximum number of output lines, and of characters, to quote in an error."""


def signal_or_code_text(code: int) -> str:
    """Return an exit code as text. For a negative code, return the name of the signal."""
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:  # the real-time signals between SIGRTMIN and SIGRTMAX have no names
        return f"signal {-code}"


def exit_text(code: int) -> str:
    """Return the name of a signal, or "exit code N"."""
    return signal_or_code_text(code) if code < 0 else f"exit code {code}"


def failed_process_text(what: str, code: int, last_printed: Sequence[str]) -> str:
    """Return an error message about a failed process, with the end of its standard output, if any."""
    text = f"{what} has ended with {signal_or_code_text(code)}"
    lines = [line[:_SHOWN_CHARACTERS_MAX] for line in last_printed[-SHOWN_LINES_MAX:]]
    return f"{text}; the end of its standard output: {' | '.join(lines)}" if lines else text
