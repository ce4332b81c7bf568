"""Process endings, in words."""

import signal
from collections.abc import Sequence

SHOWN_LINES_MAX, _SHOWN_CHARACTERS_MAX = 5, 200
"""How much output is quoted in an error."""


def ended_with(code: int) -> str:
    """Return the exit code as text, or the name of the signal for a negative code."""
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:  # real-time signals between SIGRTMIN and SIGRTMAX have no names
        return f"signal {-code}"


def exit_text(code: int) -> str:
    """Return the same as `ended_with`, with an exit code named as one."""
    return ended_with(code) if code < 0 else f"exit code {code}"


def bad_end(what: str, code: int, last_printed: Sequence[str]) -> str:
    """Return a message for a process that ended with an error. It quotes the end of the standard output, if any."""
    said = f"{what} has ended with {ended_with(code)}"
    lines = [line[:_SHOWN_CHARACTERS_MAX] for line in last_printed[-SHOWN_LINES_MAX:]]
    return f"{said}; the end of its standard output: {' | '.join(lines)}" if lines else said
