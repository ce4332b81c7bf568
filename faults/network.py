"""Network faults: selects random faults for each transmission, and counts them.

    partition        both directions between two hosts are blocked for a while. Data arrives with the sender's first
                     retry after the outage; the wait for this retry may be as long as the outage
    one-way link     the same in one direction only
    slow link        bytes queue at a low rate for a while
    late delivery    one transmission takes much longer than usual, and delays the rest of its stream
    failed accept    an accept fails, because the process has no free descriptor
    failed poll      a wait for many connections fails

`sim.network` applies faults of connections, such as resets and half-open connections. A host's connections to itself
have no faults, except that an accept can fail.

Sources: Alquraan et al., "An Analysis of Network-Partitioning Failures in Cloud Systems", OSDI 2018; RFC 6298 section
5.5, for retry intervals that double; RFC 9293 section 3.5.1, for half-open connections.
"""

from collections import Counter

from ..sim.choices import Stream
from ..sim.kernel import Kernel
from ..sim.magnitudes import draw_duration_ns
from ..sim.network.medium import ConnectionFault, LinkConditions
from .kinds import FaultKind
from .plan import NetworkPlan, chances_of, without_transient_faults

_LOOPBACK_NS = 10_000
_TRY_AGAIN_NS_MAX = 60_000_000_000  # the lowest maximum that RFC 6298 (2.5) allows for the retry interval
_MS, _US, _S = 1_000_000, 1_000, 1_000_000_000
_PARTITION_NS_MIN = 100 * _MS
_END_OF_TIME_NS = 1 << 62
# The kinds that each transmission draws: an attribute of an Enum takes ten times as long as a name.
_BROKEN_CONNECTION, _HALF_OPEN_CONNECTION = FaultKind.BROKEN_CONNECTION, FaultKind.HALF_OPEN_CONNECTION
_PARTITION, _ONE_WAY_LINK, _SLOW_LINK = FaultKind.PARTITION, FaultKind.ONE_WAY_LINK, FaultKind.SLOW_LINK
_SPLIT_DELIVERY, _LATE_DELIVERY = FaultKind.SPLIT_DELIVERY, FaultKind.LATE_DELIVERY
_NO_FAULT = ConnectionFault.NONE


class NetworkFaults(LinkConditions):
    """The links of a network. injected: counts of faults."""

    def __init__(self, kernel: Kernel, stream: Stream, plan: NetworkPlan) -> None:
        self.injected: Counter[str] = Counter()
        self._kernel = kernel
        self._stream = stream
        self.set_plan(plan)
        self._latencies_ns = (plan.latency_us_min * _US, plan.latency_us_max * _US)
        self._blocked_until_ns: dict[tuple[str, str], int] = {}
        self._slow_until_ns: dict[tuple[str, str], int] = {}
        self._sent_until_ns: dict[tuple[str, str], int] = {}  # end of the last transfer over a slow link
        self._late_until_ns: dict[tuple[str, str], int] = {}
        """Arrival time of the last late delivery."""

    def set_plan(self, plan: NetworkPlan) -> None:
        self._plan = plan
        self._chances = chances_of(plan)  # empty without faults; a dict, because every transmission reads a chance

    def delay_ns(self, source: str, target: str, size_bytes: int) -> int:
        if source == target:
            return _LOOPBACK_NS
        link = f"{source}>{target}"
        delay_ns = self._stream.randint(*self._latencies_ns, f"latency {link}")
        if not (self._chances or self._blocked_until_ns or self._slow_until_ns):
            return delay_ns
        delay_ns += self._outage_ns(source, target, link)
        delay_ns += self._queue_ns(source, target, link, size_bytes)
        if self._inject_if(_LATE_DELIVERY, link):
            delay_ns += self._draw_ns(_MS, self._plan.late_ms_max, f"late delivery {link}")
        return delay_ns

    def note_arrival(self, source: str, target: str, sent_ns: int, arrives_ns: int) -> None:
        """Record a late arrival. A split delivery may take twice the maximum latency."""
        if arrives_ns - sent_ns > 2 * self._latencies_ns[1]:
            link = source, target
            self._late_until_ns[link] = max(arrives_ns, self._late_until_ns.get(link, 0))

    def late_until_ns(self, host: str) -> int:
        return max((until_ns for link, until_ns in self._late_until_ns.items() if host in link), default=0)

    def first_piece_bytes(self, source: str, target: str, size_bytes: int) -> int:
        link = f"{source}>{target}"
        if source == target or not self._inject_if(_SPLIT_DELIVERY, link):
            return size_bytes
        return self._stream.randint(1, size_bytes - 1, f"first piece {link}")

    def draw_connection_fault(self, source: str, target: str) -> ConnectionFault:
        if source == target or not self._chances:
            return _NO_FAULT
        link = f"{source}>{target}"
        if self._inject_if(_BROKEN_CONNECTION, link):
            return ConnectionFault.BROKEN
        if self._inject_if(_HALF_OPEN_CONNECTION, link):
            return ConnectionFault.LOST
        return _NO_FAULT

    def refuses_connection(self, source: str, target: str) -> bool:
        return source != target and self._inject_if(FaultKind.REFUSED_CONNECTION, f"{source}>{target}")

    def fails_accept(self, machine: str) -> bool:
        return self._inject_if(FaultKind.FAILED_ACCEPT, machine)

    def fails_poll(self, machine: str) -> bool:
        return self._inject_if(FaultKind.FAILED_POLL, machine)

    def is_silent_death(self, host: str, forced: bool | None) -> bool:
        return self._inject_if(FaultKind.SILENT_DEATH, host, None if forced is None else float(forced))

    def is_reset_at_death(self, host: str) -> bool:
        return self._inject_if(FaultKind.RESET_AT_DEATH, host)

    def draw_lost_pieces(self, host: str, under_way: int) -> int:
        return self._stream.randbelow(under_way + 1, f"pieces lost with {host}")

    def cut(self, one: str, other: str) -> None:
        """Block both directions between two hosts until `heal`."""
        self.injected[_PARTITION] += 1
        for direction in ((one, other), (other, one)):
            self._blocked_until_ns[direction] = _END_OF_TIME_NS

    def heal(self) -> None:
        self.set_plan(without_transient_faults(self._plan))
        self._blocked_until_ns.clear()
        self._slow_until_ns.clear()
        self._sent_until_ns.clear()

    def _outage_ns(self, source: str, target: str, link: str) -> int:
        """Return the rest of an outage plus the wait for the next retry; 0 without an outage."""
        now_ns = self._kernel.now_ns
        left_ns = self._blocked_until_ns.get((source, target), 0) - now_ns
        if left_ns <= 0:
            left_ns = self._begin_outage(source, target, link)
        if left_ns <= 0:
            return 0
        # A sender doubles its retry interval, so the first retry after the outage may take as long again as the outage.
        return left_ns + self._stream.randbelow(min(left_ns, _TRY_AGAIN_NS_MAX), f"next try {link}")

    def _begin_outage(self, source: str, target: str, link: str) -> int:
        plan, now_ns = self._plan, self._kernel.now_ns
        if self._inject_if(_PARTITION, link):
            directions = [(source, target), (target, source)]
        elif self._inject_if(_ONE_WAY_LINK, link):
            directions = [(source, target)]
        else:
            return 0
        lasts_ns = self._draw_ns(_PARTITION_NS_MIN, plan.partition_ms_max, f"partition {link}")
        for direction in directions:
            until_ns = self._blocked_until_ns.get(direction, 0)  # an outage of this direction may last longer
            self._blocked_until_ns[direction] = max(until_ns, now_ns + lasts_ns)
        return lasts_ns

    def _queue_ns(self, source: str, target: str, link: str, size_bytes: int) -> int:
        """Return the queueing and transfer time on a slow link; 0 on other links."""
        plan, now_ns, direction = self._plan, self._kernel.now_ns, (source, target)
        if self._slow_until_ns.get(direction, 0) <= now_ns:
            if not size_bytes or not self._inject_if(_SLOW_LINK, link):
                return 0
            lasts_ns = self._draw_ns(_MS, plan.slow_link_ms_max, f"slow link {link}")
            self._slow_until_ns[direction] = now_ns + lasts_ns
        begins_ns = max(now_ns, self._sent_until_ns.get(direction, 0))
        ends_ns = begins_ns + size_bytes * _S // plan.slow_link_bytes_per_s
        assert now_ns <= begins_ns <= ends_ns, (now_ns, begins_ns, ends_ns)
        self._sent_until_ns[direction] = ends_ns
        return ends_ns - now_ns

    def _draw_ns(self, least_ns: int, most_ms: int, label: str) -> int:
        return draw_duration_ns(self._stream, least_ns, most_ms, f"ns of a {label}", self._kernel.landmarks_ms)

    def _inject_if(self, fault: FaultKind, label: str, chance: float | None = None) -> bool:
        """Decide randomly whether to inject a fault, and count it. chance: replaces the plan's chance; 0 and 1 are
        certain.
        """
        if chance is None:
            chance = self._chances.get(fault, 0.0)
        if chance <= 0.0 or not self._stream.chance(chance, f"{fault} {label}"):
            return False
        self.injected[fault] += 1
        if self._kernel.trace is not None:
            self._kernel.trace.add_event(fault, label)
        return True
