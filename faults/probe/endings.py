"""How processes end, in words."""

import signal


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
