"""Throttling: slows tasks that dirty pages down to the speed of the device (balance_dirty_pages).

Below the mean of the background limit and the limit, tasks run freely. Above it, a task that has dirtied some pages
pauses for pages / task_ratelimit, minus the time since its last pause. task_ratelimit is dirty_ratelimit, about the
share of the device's bandwidth for each task, times a position ratio: 1 at the setpoint, more below, 0 at the limit. A
pause has at most 200 ms. At the limit, tasks pause until write-back has made room. The device's bandwidth and
dirty_ratelimit are estimated each 200 ms. Rates are pages per second, pauses whole ticks of the kernel's clock.

Both `write` and a page fault through a shared map end here (mm/memory.c, fault_dirty_shared_page); O_DIRECT does not.

Sources: Linux, mm/page-writeback.c (balance_dirty_pages, wb_position_ratio, wb_update_dirty_ratelimit,
wb_update_write_bandwidth, wb_min_pause, wb_max_pause); "No-I/O dirty throttling", LWN 456904. The model has one
device, which has the whole limits (wb_thresh).
"""

from dataclasses import dataclass
from typing import Protocol

from ...sim.machine import Scheduler, WaitReason

TICK_NS = 4_000_000
"""A tick of the kernel's clock (CONFIG_HZ=250)."""
PAUSE_NS_MAX = 200_000_000  # MAX_PAUSE
_SECOND_NS = 1_000_000_000
_ESTIMATE_NS = 200_000_000  # BANDWIDTH_INTERVAL
_PERIOD_NS = 1_024 * TICK_NS  # 3 s, as a power of two of ticks
_INITIAL_BANDWIDTH = 25_600  # INIT_BW: 100 MiB/s
_POLL_PAGES = 32  # DIRTY_POLL_THRESH, and a task's first nr_dirtied_pause
_POLL_PAGES_EXCEEDED = 8
_ONE = 1 << 10  # position ratios are fixed-point numbers, RATELIMIT_CALC_SHIFT
_PAUSING = WaitReason("dirty limit")


class DirtyPages(Protocol):
    """The counts from which pauses are computed."""

    @property
    def dirty_pages(self) -> int:
        """Dirty pages, and pages under write-back."""

    @property
    def written_pages(self) -> int:
        """All pages written so far."""

    @property
    def limits(self) -> tuple[int, int]:
        """Background limit and limit."""


@dataclass(slots=True)
class _Dirtier:
    """A task that dirties pages: nr_dirtied, nr_dirtied_pause and dirty_paused_when of its task_struct."""

    dirtied: int = 0
    pause_after: int = _POLL_PAGES
    paused_ns: int = 0


class DirtyThrottle:
    """Pauses the tasks of one machine. Invariant: rates are at least one page per second."""

    def __init__(self, kernel: Scheduler, pages: DirtyPages) -> None:
        self._kernel = kernel
        self._pages = pages
        self._dirtiers: dict[int, _Dirtier] = {}
        self._is_exceeded = False
        self._estimated_ns = 0
        self._dirtied = self._dirtied_before = self._written_before = 0
        self._bandwidth = self.bandwidth = self.ratelimit = self._balanced = _INITIAL_BANDWIDTH
        self.throttled_ns = 0

    def pause_dirtier(self, pages: int) -> None:
        """Count pages that the current task has dirtied, and pause it if due."""
        self._dirtied += pages
        number = self._kernel.current.number
        dirtier = self._dirtiers.get(number)
        if dirtier is None:
            dirtier = self._dirtiers[number] = _Dirtier()
        dirtier.dirtied += pages
        if dirtier.dirtied >= min(
            dirtier.pause_after, _POLL_PAGES_EXCEEDED if self._is_exceeded else dirtier.pause_after
        ):
            self._balance(dirtier)

    def estimate_bandwidth(self, *, while_pausing: bool = False) -> None:
        """Update the estimates if the last update is 200 ms old. The flusher and pausing tasks call this."""
        now_ns = self._kernel.now_ns
        elapsed_ns = now_ns - self._estimated_ns
        if elapsed_ns < _ESTIMATE_NS:
            return
        if while_pausing:
            self._update_ratelimit(elapsed_ns)
        if while_pausing or elapsed_ns <= _SECOND_NS:  # longer: the device was idle in between
            self._update_bandwidth(elapsed_ns)
        self._estimated_ns = now_ns
        self._dirtied_before, self._written_before = self._dirtied, self._pages.written_pages

    def _balance(self, dirtier: _Dirtier) -> None:
        kernel, pages = self._kernel, self._pages
        while True:
            now_ns, dirty, (background, limit) = kernel.now_ns, pages.dirty_pages, pages.limits
            if dirty <= (background + limit) // 2:
                dirtier.paused_ns, dirtier.dirtied, self._is_exceeded = now_ns, 0, False
                dirtier.pause_after = 1 << (max(limit - dirty, 1).bit_length() - 1 >> 1)  # dirty_poll_interval
                return
            self._is_exceeded = dirty > limit
            self.estimate_bandwidth(while_pausing=True)
            rate = self.ratelimit * self._position_ratio(dirty, background, limit) // _ONE
            pause_max_ns = min((dirty // (1 + self.bandwidth // 32) + 1) * TICK_NS, PAUSE_NS_MAX)  # wb_max_pause
            pause_min_ns, pause_after = self._next_pause(rate, pause_max_ns)
            period_ns = pause_ns = pause_max_ns
            if rate:
                period_ns = dirtier.dirtied * _SECOND_NS // rate
                pause_ns = period_ns - (now_ns - dirtier.paused_ns)
                if pause_ns < pause_min_ns:
                    self._skip_pause(dirtier, pause_ns, period_ns)
                    return
            pause_ns = -(-min(pause_ns, pause_max_ns) // TICK_NS) * TICK_NS
            kernel.park(_PAUSING, now_ns + pause_ns)
            self.throttled_ns += kernel.now_ns - now_ns
            dirtier.paused_ns, dirtier.dirtied, dirtier.pause_after = kernel.now_ns, 0, max(pause_after, 1)
            if rate:
                return

    def _skip_pause(self, dirtier: _Dirtier, pause_ns: int, period_ns: int) -> None:
        """Skip a short pause. Its time counts for the next one, unless the task was idle for a second."""
        dirtier.paused_ns = self._kernel.now_ns if pause_ns < -_SECOND_NS else dirtier.paused_ns + period_ns
        dirtier.dirtied = 0

    def _next_pause(self, rate: int, pause_max_ns: int) -> tuple[int, int]:
        """Return the shortest pause, and the pages after which the task pauses next (wb_min_pause)."""
        target_ns = 10_000_000 + max(self.bandwidth.bit_length() - self.ratelimit.bit_length(), 0) * 10_000_000
        target_ns = min(target_ns, pause_max_ns // 2 + TICK_NS)
        pages = self.ratelimit * target_ns // _SECOND_NS
        if pages < _POLL_PAGES:
            target_ns, pages = pause_max_ns, self.ratelimit * pause_max_ns // _SECOND_NS
            if pages > _POLL_PAGES:
                target_ns, pages = _SECOND_NS * _POLL_PAGES // self.ratelimit, _POLL_PAGES
        if _SECOND_NS * pages // (rate + 1) > pause_max_ns:
            target_ns, pages = pause_max_ns, rate * pause_max_ns // _SECOND_NS
        return (target_ns // 2 if pages >= _POLL_PAGES else target_ns), pages

    def _position_ratio(self, dirty: int, background: int, limit: int) -> int:
        """Return the ratio, times _ONE: a cubic curve around the setpoint, times a line as wide as 8 s of writes."""
        if dirty >= limit:
            return 0
        setpoint = ((background + limit) // 2 + limit) // 2
        x = (setpoint - dirty) * _ONE // max(limit - setpoint, 1)
        ratio = min(max(_ONE + x * x // _ONE * x // _ONE, 0), 2 * _ONE)
        span = 8 * self.bandwidth
        return ratio * max(setpoint + span - dirty, span // 4) // span

    def _update_ratelimit(self, elapsed_ns: int) -> None:
        """Move dirty_ratelimit towards the rate at which the tasks dirty as many pages as the device writes."""
        dirty, (background, limit) = self._pages.dirty_pages, self._pages.limits
        setpoint = ((background + limit) // 2 + limit) // 2
        dirty_rate = (self._dirtied - self._dirtied_before) * _SECOND_NS // elapsed_ns
        task_rate = self.ratelimit * self._position_ratio(dirty, background, limit) // _ONE + 1
        balanced = min(task_rate * self.bandwidth // max(dirty_rate, 1), self.bandwidth)
        if dirty < setpoint:
            step = max(min(self._balanced, balanced, task_rate) - self.ratelimit, 0)
        else:
            step = max(self.ratelimit - max(self._balanced, balanced, task_rate), 0)
        step = -(-(step >> min(self.ratelimit // (2 * step + 1), 64)) // 8)
        self.ratelimit = max(self.ratelimit + (step if self.ratelimit < balanced else -step), 1)
        self._balanced = balanced

    def _update_bandwidth(self, elapsed_ns: int) -> None:
        """Smooth the bandwidth over 4 s, and once more against short peaks."""
        written = self._pages.written_pages - self._written_before
        if elapsed_ns > _PERIOD_NS:
            self._bandwidth = self.bandwidth = max(written * _SECOND_NS // elapsed_ns, 1)
            return
        old, average = self._bandwidth, self.bandwidth
        new = (written * _SECOND_NS + old * (_PERIOD_NS - elapsed_ns)) // _PERIOD_NS
        if (average > old >= new) or (average < old <= new):
            average += (old - average) // 8
        self._bandwidth, self.bandwidth = new, max(average, 1)
