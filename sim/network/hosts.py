"""The simulated network: hosts by name, each with at most one running machine.

A host name outlives its machine, as an IP address survives a reboot. When a machine dies, its listeners close. Its
connections end, are reset or become silent, as the link conditions or the caller that kills the machine decide. Host
names in RocketMQ messages must be IPv4 addresses.

Not modelled: corrupt bytes, hosts with several addresses, delayed TCP acknowledgements.
"""

import errno
from functools import partial

from ..kernel import Kernel
from ..machine import Machine, WaitReason
from .connection import SimConnection
from .listener import SimListener, SimPoller
from .medium import LinkConditions, NetworkMedium

_FIRST_FREE_PORT = 40_000
_PORT_MAX = 65_535
_ANYWHERE = "0.0.0.0"
_LOOPBACK = ("127.0.0.1", "localhost")
_BUFFER_BYTES = 1 << 16


class SimNetwork:
    """All hosts of one kernel.

    buffer_bytes: maximum number of bytes of a stream in flight or unread. At this number, the sender waits.
    """

    def __init__(
        self, kernel: Kernel, conditions: LinkConditions | None = None, *, buffer_bytes: int = _BUFFER_BYTES
    ) -> None:
        self._medium = NetworkMedium(kernel, conditions or LinkConditions(), buffer_bytes)
        self.next_ports: dict[str, int] = {}
        """Next free port by host. Ports are not reused at once, not even after a reboot."""
        self._newest: dict[str, HostNetwork] = {}

    def connect_machine(self, machine: Machine, host: str) -> "HostNetwork":
        """Connect a machine under a host name, whose previous machine must be off."""
        if self._medium.is_host_on(host):
            raise ValueError(f"host {host}: machine {self._medium.machines[host].name} is on")
        before = self._newest.get(host)
        self._medium.machines[host] = machine
        endpoint = self._newest[host] = HostNetwork(self, self._medium, machine, host)
        machine.at_death.append(endpoint.close_at_machine_death)
        if before is not None:
            before.on_peer_reboot()
        return endpoint

    def heal(self) -> None:
        """End all faults. Bytes in flight arrive soon, and hosts detect lost connections."""
        self._medium.conditions.heal()
        for host in sorted(self._newest):
            self._newest[host].heal()

    def newest_endpoint(self, host: str) -> "HostNetwork | None":
        return self._newest.get(host)


class HostNetwork:
    """The network endpoint of one machine. Every call is a scheduling point.

    Invariant: `_ends` contains all connections of this machine, except some that are closed on both sides.
    """

    def __init__(self, network: SimNetwork, medium: NetworkMedium, machine: Machine, host: str) -> None:
        self.host = host
        self.dies_silently: bool | None = None
        """Whether the machine dies in a power cut, and so sends no message to its peers.

        None: the link conditions decide.
        """
        self.is_off = False
        """Whether the machine has lost power, so that connection attempts get no answer, not even a refusal."""
        self._network = network
        self._medium = medium
        self._machine = machine
        self._listeners: dict[int, SimListener] = {}
        self._ends: list[SimConnection] = []
        self._pollers = 0

    # -- called by its machine ----------------------------------------------------------------------

    def listen(self, address: str) -> SimListener:
        """Listen at `host:port`. host: name of this host, a loopback name or 0.0.0.0.

        OSError: EADDRINUSE, EADDRNOTAVAIL.
        """
        self._medium.pass_scheduling_point(self._machine, f"listen {address}")
        name, port = _split_host_and_port(address)
        is_loopback = name in _LOOPBACK
        if not is_loopback and name not in (self.host, _ANYWHERE):
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address", address)
        port = port or self._free_port()
        if port in self._listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use", address)
        at = f"{_LOOPBACK[0] if is_loopback else name}:{port}"
        release_port = partial(self._listeners.pop, port, None)
        listener = SimListener(self._medium, self._machine, at, release_port, is_loopback)
        self._listeners[port] = listener
        self._medium.record_event("listen", f"{self.host} {at}", b"")
        return listener

    def connect(self, address: str, timeout_ms: int) -> SimConnection:
        medium = self._medium
        medium.pass_scheduling_point(self._machine, f"connect {address}")
        name, port = _split_host_and_port(address)
        target = self.host if name in _LOOPBACK else name
        peer = self._network.newest_endpoint(target)
        if peer is None:
            raise OSError(errno.EHOSTUNREACH, "No route to host", address)
        due_ns = medium.kernel.now_ns + timeout_ms * 1_000_000
        ask = WaitReason(f"connect {address}")
        self._sleep_until(ask, medium.conditions.delay_ns(self.host, target, 0), due_ns)
        peer = self._network.newest_endpoint(target)  # meanwhile the host may have a new machine
        assert peer is not None, target
        listener = peer.find_listener(port, is_local=target == self.host)
        if peer.is_off or (listener is not None and not listener.has_room):
            self._sleep_until(ask, due_ns, due_ns)  # no answer, so this always ends with a timeout
        if listener is None or medium.conditions.refuses_connection(self.host, target):
            self._sleep_until(ask, medium.conditions.delay_ns(target, self.host, 0), due_ns)
            medium.record_event("refused", f"{self.host}>{address}", b"")
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address}: connection refused")
        local_name = name if name in _LOOPBACK else self.host
        mine = SimConnection(medium, self._machine, self.host, f"{local_name}:{self._free_port()}", address)
        theirs = SimConnection(medium, peer._machine, target, address, mine.local_address)
        mine.peer, theirs.peer = theirs, mine
        self._add_connection_end(mine)
        peer._add_connection_end(theirs)
        listener.queue_connection(theirs)
        try:
            self._sleep_until(ask, medium.conditions.delay_ns(target, self.host, 0), due_ns)
        except TimeoutError:  # the listener has already accepted the connection, so it gets a reset
            mine.closed = True
            mine.reset()
            raise
        medium.record_event("connect", mine.label, b"")
        return mine

    def poller(self) -> SimPoller:
        self._pollers += 1
        number = "" if self._pollers == 1 else f"#{self._pollers}"
        return SimPoller(self._medium, self._machine, f"poll {self.host}{number}")

    # -- called by the network -----------------------------------------------------------------------

    def find_listener(self, port: int, *, is_local: bool) -> SimListener | None:
        found = self._listeners.get(port)
        return found if found is None or is_local or not found.is_loopback else None

    def close_at_machine_death(self) -> None:
        conditions = self._medium.conditions
        self.is_off = conditions.is_silent_death(self.host, self.dies_silently)
        for listener in list(self._listeners.values()):  # a copy, because `stop_listening` removes the listener
            if self.is_off:
                listener.closed = True
            else:
                listener.stop_listening()
        self._listeners.clear()
        for end in self._ends:
            if end.closed:
                continue
            if self.is_off:
                end.close_silently()
            elif not end.is_lost and conditions.is_reset_at_death(self.host):
                end.closed = True
                end.reset()
            else:
                end.end_stream()

    def on_peer_reboot(self) -> None:
        """Reset lost connections, which the peer's new machine does not know.

        A connection that sent bytes since the power loss gets the reset soon, other connections when they send.
        """
        for end in self._ends:
            if end.peer.is_lost and not end.peer.closed and end.incoming.size_bytes:
                # The delay of a retransmission and of the reset that answers it.
                end.peer.set_broken_time(self._medium.kernel.now_ns + 2 * self._round_trip_ns(end))

    def heal(self) -> None:
        now_ns = self._medium.kernel.now_ns
        for end in self._ends:
            if end.closed:
                continue
            end.incoming.limit_arrivals_to(now_ns + self._round_trip_ns(end))
            if end.is_lost:
                end.set_broken_time(now_ns + self._round_trip_ns(end))
            end.wake_watchers()

    def _round_trip_ns(self, end: SimConnection) -> int:
        return self._medium.conditions.delay_ns(end.peer.host, end.host, 0)

    def _add_connection_end(self, end: SimConnection) -> None:
        self._ends = [known for known in self._ends if not (known.closed and known.peer.closed)]
        self._ends.append(end)

    def _sleep_until(self, why: WaitReason, delay_ns: int, due_ns: int) -> None:
        kernel = self._medium.kernel
        moment_ns = kernel.now_ns + delay_ns
        if moment_ns > kernel.now_ns:
            kernel.park(why, min(moment_ns, due_ns))
        if moment_ns >= due_ns:
            raise TimeoutError(errno.ETIMEDOUT, f"{why.label}: no answer in time")

    def _free_port(self) -> int:
        port = self._network.next_ports.get(self.host, _FIRST_FREE_PORT)
        while port in self._listeners:
            port += 1
        self._network.next_ports[self.host] = _FIRST_FREE_PORT if port >= _PORT_MAX else port + 1
        return port


def _split_host_and_port(address: str) -> tuple[str, int]:
    name, colon, port = address.rpartition(":")
    if not colon or not name or not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        raise ValueError(f"address: expected host:port with a port up to {_PORT_MAX}, found {address!r}")
    return name, int(port)
