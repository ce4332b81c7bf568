"""Routes: brokers that a name server must list, and that it must no longer list (QUIET).

A broker registers at each interval, so a name server that has restarted lists it again within two. A name server
removes a broker when it unregisters, when its connection ends, or after 120 s if it falls silent. Runs that are checked
have no network faults, so a listed broker stays listed. Source: RocketMQ RouteInfoManager.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..evidence import Violation, record_tried

_EXPIRED_MS = 120_000  # RocketMQ RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME
_NS = 1_000_000
Identity = tuple[str, int, str]
"""Name, id and address of a broker."""


class Presence(NamedTuple):
    """The state of one broker. Both times are None while it starts or stops."""

    serves_since_ns: int | None
    dead_since_ns: int | None
    is_silent: bool = False
    """Whether no end of the dead broker's connections reaches other machines."""
    timed_out_at: Collection[str] = ()
    """Addresses of the name servers that did not answer the last registration in time.

    The broker closes such a connection, so the name server removes it until the next registration. A pause of a machine
    suffices.
    """


class RouteBounds(NamedTuple):
    """Time limits of a plan."""

    register_ms: int
    """From the start of a broker or name server until the broker is registered."""
    late_ms: int
    """For the end of a connection, or a request in flight, to take effect."""


def check_listed_brokers(
    listed: Collection[str],
    name_server: Presence,
    brokers: Mapping[str, Presence],
    asked_ns: int,
    bounds: RouteBounds,
    registered: Container[str] = (),
) -> Iterator[Violation]:
    """Yield each broker that a name server lists or omits against its presence.

    listed, brokers: by address, without the broker of the name server. The presences are those at the answer. The name
    server has answered the request. registered: the brokers that have registered since the name server's start.
    """
    if name_server.serves_since_ns is None or name_server.serves_since_ns > asked_ns:
        return
    for address, broker in brokers.items():
        if broker.serves_since_ns is not None and address not in listed:
            record_tried("QUIET")
            due_ns = max(broker.serves_since_ns, name_server.serves_since_ns) + bounds.register_ms * _NS
            if due_ns < asked_ns or address in registered:
                yield _violation(f"{address} is not in the routes of a name server", f"by {due_ns} ns", asked_ns)
        if broker.dead_since_ns is not None and address in listed:
            record_tried("QUIET")
            expiry_ms = bounds.late_ms + (_EXPIRED_MS if broker.is_silent else 0)
            due_ns = broker.dead_since_ns + expiry_ms * _NS
            if due_ns < asked_ns:
                yield _violation(f"{address} is dead and in the routes of a name server", f"by {due_ns} ns", asked_ns)


def check_identities(listed: Iterable[Identity], brokers: Container[Identity]) -> Iterator[Violation]:
    """Yield each broker in a route with the name, id or address of another one."""
    record_tried("QUIET")
    for each in sorted(listed):
        if each not in brokers:
            summary = "a name server lists a broker that does not exist"
            yield Violation("QUIET", summary, field="routes", expected="a broker of the run", found=str(each))


def _violation(summary: str, expected: str, asked_ns: int) -> Violation:
    return Violation("QUIET", summary, field="routes", expected=expected, found=f"not at {asked_ns} ns")
