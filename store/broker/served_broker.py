"""A broker with its server in front of it and its rules of access, as one thing that starts and stops."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..config import BrokerRole, FlushDiskType, StoreConfig
from ..world import World
from .acl.access_control import AccessControl
from .broker import Broker
from .broker_config import BrokerConfig
from .limits import ServerLimits
from .server import RemotingServer


class ServedBroker:
    """One store directory that clients can reach."""

    def __init__(
        self,
        world: World,
        store: StoreConfig,
        config: BrokerConfig,
        limits: ServerLimits,
        *,
        acl_path: str | None = None,
        tell: Callable[[str], None],
    ) -> None:
        """Read the rules of access, if acl_path names some. PlainAclError or OSError if they cannot be."""
        self._access = None if acl_path is None else AccessControl(world, acl_path, tell)
        waits = (
            store.flush_disk_type is FlushDiskType.SYNC_FLUSH or store.broker_role is BrokerRole.SYNC_MASTER
        )
        self.server = RemotingServer(world, limits.with_waiting_sends() if waits else limits, tell=tell)
        self.addresses: list[str] = []
        """Where it listens, once started; the first is the one that clients are told."""
        self._tell = tell
        self._world = world
        self._store = store
        self._config = config
        self._tell = tell
        self._broker: Broker | None = None

    def start(self, addresses: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Listen, recover the directory, and answer requests.

        optional: where it listens as well if that can be had; if not, the operator is told.
        OSError if an address cannot be had or the disk fails, StoreLockedError if the directory is in use,
        CorruptFileError if it cannot be a store's; then nothing is left running.
        """
        try:
            self.addresses = self.server.listen(addresses)
            for address in optional:
                self._listen_as_well(address)
            port = int(self.addresses[0].rpartition(":")[2])
            broker = Broker(self._world, self._store, replace(self._config, listen_port=port))
            broker.load()
            broker.start()
        except BaseException:
            self.server.shutdown()
            raise
        self._broker = broker
        flags = broker.own_store.flags
        flags.on_service_failed = lambda name: self._tell(
            f"{name} has ended: {flags.failures[name]}; no more is put until a restart"
        )
        for service in (self._access, *self.server.services):
            if service is not None:
                service.on_failure = flags.service_failed
        broker.server_info = self._info
        broker.watch.tell = self._tell
        if self._access is not None:
            self._access.start()
        check = None if self._access is None else self._access.check
        self.server.start(
            broker.router(),
            check=check,
            on_channel_closed=broker.channel_closed,
            on_response=broker.calls.answered,
        )

    def _listen_as_well(self, address: str) -> None:
        try:
            self.addresses += self.server.listen([address])
        except OSError as error:
            self._tell(
                f"cannot listen at {address} (the broker's port - 2, where RocketMQ's slaves and clients before 4.5 "
                f"ask): {error.strerror}; --no-vip-port does without"
            )

    def _info(self) -> dict[str, str]:
        """Return what there is to tell of the server, as runtime information has it."""
        connections, counts = self.server.connections, self.server.counts
        ended = {f"connectionsEnded_{one.name}": str(count) for one, count in counts.endings.items() if count}
        refused = {
            f"requestsRefused_{one.name}": str(count) for one, count in counts.refusals.items() if count
        }
        now_ns = self._world.clock.monotonic_ns()
        return {
            **{key: value for pool in self.server.pools for key, value in pool.fields(now_ns).items()},
            "connections": str(connections.count),
            "connectionsAccepted": str(counts.accepted),
            "heldBytes": str(connections.held_bytes),
            "requests": str(counts.requests),
            **ended,
            **refused,
        }

    def shutdown(self) -> bool:
        """Answer what has come, then stop; return whether the store's directory is left as after a clean exit."""
        if self._broker is not None:
            self._broker.held_pulls.release()
        self.server.shutdown()
        if self._access is not None:
            self._access.shutdown()
        return self._broker is None or self._broker.shutdown()
