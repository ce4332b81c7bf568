"""How processes end, in words."""

import signal
from collections.abc import Sequence

SHOWN_LINES_MAX, _SHOWN_CHARACTERS_MAX = 5, 200
"""How much of the end of an output is shown with an error."""


def ended_with(code: int) -> str:
    """Return what a process has ended with: its exit code, or, of a negative one, the signal's name."""
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:  # those without a name of their own, between SIGRTMIN and SIGRTMAX
        return f"signal {-code}"


def exit_text(code: int) -> str:
    """Return the same, with an exit code named as one."""
    return ended_with(code) if code < 0 else f"exit code {code}"


def bad_end(what: str, code: int, last_printed: Sequence[str]) -> str:
    """Return that a process has ended with an error, with the end of its standard output if there is any."""
    said = f"{what} has ended with {ended_with(code)}"
    lines = [line[:_SHOWN_CHARACTERS_MAX] for line in last_printed[-SHOWN_LINES_MAX:]]
    return f"{said}; the end of its standard output: {' | '.join(lines)}" if lines else said
