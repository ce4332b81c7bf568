"""Pull rates: messages per second that each group is given, by windows of 10 s; consumeTps in RocketMQ's tools.

Source: RocketMQ BrokerStatsManager, whose statistics are many more.
"""

from ..world import World

WINDOW_MS = 10_000
GROUPS_MAX = 100_000
_NS_PER_MS = 1_000_000


class _Window:
    __slots__ = ("before", "begun", "messages")

    def __init__(self, begun: int) -> None:
        self.begun = begun
        self.messages = 0
        self.before = 0
        """Messages in the window before this one."""


class PullRates:
    """Counts of all groups. Any task may count; two at the same moment may lose a count."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._windows: dict[str, _Window] = {}

    def count(self, group: str, messages: int) -> None:
        """Count messages that a group was given."""
        window = self._now(group)
        if window is None and len(self._windows) < GROUPS_MAX:
            window = self._windows[group] = _Window(self._number())
        if window is not None:
            window.messages += messages

    def messages_per_second(self, group: str) -> float:
        """Return the rate of the last whole window, 0.0 if there was none."""
        window = self._now(group)
        return 0.0 if window is None else window.before * 1000 / WINDOW_MS

    def _number(self) -> int:
        return self._clock.monotonic_ns() // (WINDOW_MS * _NS_PER_MS)

    def _now(self, group: str) -> _Window | None:
        """Return a group's present window, begun if time has passed."""
        window = self._windows.get(group)
        if window is not None and window.begun != (number := self._number()):
            window.before = window.messages if number == window.begun + 1 else 0
            window.begun, window.messages = number, 0
        return window
