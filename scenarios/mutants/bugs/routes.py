"""Bugs of brokers beside each other: what they say of themselves to name servers, and what a slave copies."""

from typing import Any

from ....store.broker import name_server
from ....store.broker.name_server import RegisteredBroker
from ....store.broker.outer_api import BrokerRegistration, SlaveSynchronize
from ....store.broker.requests import RequestCode
from ....store.broker.versioned_table import VersionedTable
from ....store.delivery.schedule import decoded_offsets
from ....store.formats.remoting.json_body import Members, decode_json_body
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_CLUSTER = BROKER.replace(
    heals=(True,),
    sync_flush=(True,),
    lives=(2, 3),
    consumers=(1, 2),
    cluster={"slaves": (1,)},
    broker={"slaves_are_read": (True,), "off_ms_max": (10_000, 30_000)},
)


# A broker that a name server has taken note of is not heard of again. A name server that starts anew knows itself
# alone, and whoever asks it finds no other broker.
@bug("registers-once", BrokerRegistration, "step", found_by=("QUIET", "LIVE"))
@needs(_CLUSTER)
def register_at_start(self: BrokerRegistration) -> None:
    """A broker registers at its start alone: a name server that restarts never hears of it again."""
    if not self.registered:
        register_at_start.original(self)
        return
    bit()
    self.signal.wait(self._parts.config.register_name_server_period_ms)


# In a route, brokers of one name are counted in their order. While the master is in no route, the first of its slaves
# has its number: it is sent messages and progress, which it does not keep.
@bug("slave-listed-as-master", name_server, "_broker_datas", found_by=("META", "LIVE", "QUIET"))
@needs(_CLUSTER)
def counted(brokers: list[RegisteredBroker], *, quoted_keys: bool) -> dict[str, dict[str, Any]]:
    """While no route has the master, its first slave is taken for it."""
    datas: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        made = {"brokerAddrs": {}, "brokerName": broker.name, "cluster": broker.cluster}
        addresses = datas.setdefault(broker.name, made)["brokerAddrs"]
        bit(len(addresses) != broker.broker_id)
        addresses[str(len(addresses)) if quoted_keys else len(addresses)] = broker.address
    return datas


# A slave copies all that is beside its master's log, but for the progress of groups.
@bug("slave-keeps-its-progress", SlaveSynchronize, "synchronize", found_by=("QUIET",))
@needs(_CLUSTER)
def synchronize_without_progress(self: SlaveSynchronize) -> None:
    """A slave never has what its master's groups have committed."""
    parts = self._parts
    parts.topics.replace(decode_json_body(self._asked(RequestCode.GET_ALL_TOPIC_CONFIG)))
    bit()
    parts.own_store.schedule.take_over(decoded_offsets(self._asked(RequestCode.GET_ALL_DELAY_OFFSET), "the master"))
    parts.groups.replace(decode_json_body(self._asked(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)))
    self.synchronized += 1


# Topics and groups that a slave copies are in use and not on its disk. Nobody sees that until it is restarted and has
# no master to copy them from: because it is the master.
@bug("slave-tables-in-memory", VersionedTable, "replace", found_by=("META",))
@needs(_CLUSTER, broker={"slave_takes_over": (True,)})
def replace_in_memory(self: VersionedTable, members: Members) -> bool:  # type: ignore[type-arg]
    """A slave that takes its master's place has forgotten the topics and groups that it had copied."""
    version, table = self._of_members(members)
    with self._lock:
        if not bit(version != self.version):
            return False
        self._state = version, table
    if self.on_changed is not None:
        self.on_changed()
    return True
