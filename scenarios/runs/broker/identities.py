"""Broker identities: names, addresses and settings of the brokers of a plan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ....store.broker.broker_config import MASTER_ID
from ....store.config import BrokerRole, FlushDiskType, StoreConfig
from ...claims.machine import config_of
from ...claims.plan import Plan
from ..cluster.node import HA_PORT
from .broker_settings import PORT
from .routes import BROKER, BrokerAddress

REMEMBERED_BYTES = 200
"""The log size in memory if slaves are read. Consumers that lag by more bytes are redirected to a slave."""
_FIRST = "master"
_POOL_BUFFERS = 4
"""The log always uses two buffers. A broker without a free buffer refuses sends."""


class BrokerIdentity(NamedTuple):
    """One broker of a run."""

    name: str
    address: BrokerAddress
    host: str

    @property
    def is_first(self) -> bool:
        return self.name == _FIRST

    @property
    def ha_address(self) -> str:
        return f"{self.host}:{HA_PORT}"

    def with_id(self, broker_id: int) -> "BrokerIdentity":
        """Return the identity of the same machine in another role."""
        return self._replace(address=self.address._replace(broker_id=broker_id))


def identities_of(plan: Plan) -> list[BrokerIdentity]:
    brokers = [(_FIRST, BROKER, MASTER_ID)]
    brokers += [(f"slave-{number}", BROKER, number) for number in range(1, plan.cluster.slaves + 1)]
    brokers += [(f"master-{number}", f"broker-{'abc'[number]}", MASTER_ID) for number in range(1, plan.broker.masters)]
    return [
        BrokerIdentity(name, BrokerAddress(broker, broker_id, f"{host}:{PORT}"), host)
        for number, (name, broker, broker_id) in enumerate(brokers, start=1)
        for host in [f"10.0.0.{number}"]
    ]


def store_config_of(plan: Plan, identity: BrokerIdentity, others: Sequence[BrokerIdentity]) -> StoreConfig:
    settings = _replication_settings(plan, identity, others)
    return replace(config_of(plan), transient_store_pool_size=_POOL_BUFFERS, **settings)


def _replication_settings(plan: Plan, identity: BrokerIdentity, others: Sequence[BrokerIdentity]) -> dict[str, Any]:
    cluster = plan.cluster
    settings: dict[str, Any] = {}
    if not cluster.slaves or identity.address.broker != BROKER:
        return settings
    if plan.broker.slaves_are_read:
        settings |= {"physical_memory_bytes": REMEMBERED_BYTES, "access_message_in_memory_max_ratio": 100}
    settings |= {"slave_timeout_ms": cluster.slave_timeout_ms, "ha_transfer_batch_size": cluster.transfer_batch_bytes}
    if identity.address.is_slave:
        flush = FlushDiskType.SYNC_FLUSH if cluster.slave_sync_flush else FlushDiskType.ASYNC_FLUSH
        settings |= {"broker_role": BrokerRole.SLAVE, "flush_disk_type": flush}
        masters = [other for other in others if other.address.broker == BROKER and not other.address.is_slave]
        return settings | ({"ha_master_address": masters[0].ha_address} if plan.broker.slaves_know_ha_address else {})
    waits = cluster.sync_master and any(other.address.is_slave for other in others)
    return settings | {"broker_role": BrokerRole.SYNC_MASTER if waits else BrokerRole.ASYNC_MASTER}
