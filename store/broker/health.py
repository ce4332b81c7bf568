"""Health of a broker: the checks of `/healthz`, `/readyz` and the metric `ready`, listed in docs/broker-monitoring.md.

A process is alive while its poller task makes turns. Reading the health never blocks a client request.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..replication.ha_client import FOLLOWING
from ..running_flags import RefusalReason
from ..world import World
from .broker import Broker
from .server import RemotingServer

TURN_MS_MAX = 5_000
"""A poller task without a turn for this long is stuck, because a turn takes milliseconds."""
_STEP_MS = 5


class HealthCheck(NamedTuple):
    """A check and its problem. The problem is empty if the check passed."""

    name: str
    problem: str = ""


RECOVERING = HealthCheck("recovered", "the store is still recovering")


def is_alive(world: World, server: RemotingServer) -> bool:
    """Wake the poller task, and return whether it makes a turn within TURN_MS_MAX.

    Before the task starts, the process counts as alive, because recovery may take minutes.
    """
    connections = server.connections
    if not connections.is_started:
        return True
    before = connections.turns
    connections.wake()
    for _ in range(TURN_MS_MAX // _STEP_MS):
        if connections.turns != before:
            return True
        world.tasks.sleep(_STEP_MS)
    return False


def server_check(server: RemotingServer) -> HealthCheck:
    problem = "" if server.connections.is_started else "not started yet"
    return HealthCheck("serving", server.failure or problem)


def broker_checks(broker: Broker, server: RemotingServer) -> Iterator[HealthCheck]:
    """Yield the checks that apply to a started broker."""
    yield HealthCheck("recovered")
    yield server_check(server)
    yield HealthCheck("writable", _refusal_text(broker))
    if broker.registrations:
        yield HealthCheck("registered", _registration_problem(broker))
    transfer = broker.own_store.commit_log.group_transfer
    if transfer is not None:
        is_near = transfer.has_replica_near(broker.own_store.max_phy_offset)
        yield HealthCheck("replicated", "" if is_near else "no slave is connected, or every slave is too far behind")
    if broker.ha is not None and broker.ha.client is not None:
        is_following = broker.ha.client.state == FOLLOWING
        yield HealthCheck("following", "" if is_following else broker.ha.client.state_and_reason)
    if broker.synchronize is not None:
        copied, error = broker.synchronize.synchronized, broker.synchronize.last_error
        problem = "not copied yet" if error is None and not copied else str(error or "")
        yield HealthCheck("tables", problem)


def _refusal_text(broker: Broker) -> str:
    store = broker.own_store
    failure = store.allocate.failure
    if failure is not None:
        path, size_bytes, error = failure
        return f"{path}: a segment of {size_bytes:,} bytes cannot be created: {error.strerror}"
    bits = store.flags.bits & ~RefusalReason.NOT_READABLE
    names = [reason.name for reason in RefusalReason if reason & bits]
    return ", ".join(name.lower().replace("_", " ") for name in names if name)


def _registration_problem(broker: Broker) -> str:
    if any(each.registered and each.last_error is None for each in broker.registrations):
        return ""
    return "; ".join(f"{each.address}: {each.last_error or 'not registered yet'}" for each in broker.registrations)
