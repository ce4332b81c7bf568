"""What a program says that it promises, from this moment on."""

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def acknowledge(promise: str) -> None:
    """Say that something is promised now. While nobody records, nothing happens."""
    for listener in _listeners:
        listener(promise)


def listen(listener: Callable[[str], None]) -> None:
    """Have each promise told to a listener, too, for the rest of the process."""
    _listeners.append(listener)
