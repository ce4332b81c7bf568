"""Bugs of replication that act in brokers only: answers to sends, registrations, and starts of slaves."""

from collections.abc import Callable

from ....store.broker.broker import Broker
from ....store.broker.outer_api import BrokerRegistration
from ....store.broker.parts import BrokerParts
from ....store.formats.messages import PUT_OK, PutMessageResult
from ....store.log.put_wait import PutWait
from ....store.plugins import AnyMessageStore
from ....store.replication.ha_client import HAClient
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.services.transaction_check import CHECK_GROUP
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import LAGGING_SLAVE, RETURNING_MASTER
from ..mutant import bit, bug, needs

_READS = SCENARIOS["slave-reads"].ranges
_LAGS = _READS.replace(**LAGGING_SLAVE).replace(heals=(True,), broker={"slave_takes_over": (True,)})
_SET_UP = _READS.replace(
    heals=(True,), broker={"slaves_know_master": (False,), "slaves_know_ha_address": (True,), "slave_lags": (False,)}
)
_TRANSACTIONS = SCENARIOS["transaction-network-faults"].ranges.replace(
    sync_flush=(True,), memory={"transient_pool": (False,)}, cluster={"slaves": (1,)}
)


@bug("send-answered-before-slave", PutWait, "poll", found_by=("REP",))
@needs(_READS, cluster={"sync_master": (True,)})
def poll_sync_only(self: PutWait, now_ns: int) -> PutMessageResult | None:
    """A SYNC_MASTER answers a send SUCCESS after the sync of its own disk."""
    answer = poll_sync_only.original(self, now_ns)
    if answer is not None or self._transfer is None:
        return answer
    flushed = PUT_OK if self._flush is None else self._flush.poll(now_ns)
    if flushed is None:
        return None
    bit()
    return self._combined_result(flushed, PUT_OK)


@bug("slave-connects-at-each-registration", HAClient, "update_master_address", found_by=("REP",))
@needs(_READS)
def update_with_same_address(self: HAClient, address: str) -> None:
    """A slave that registers with a name server ends the connection to its master, and connects again."""
    bit(address == self.master_address)
    with self._lock:
        self.master_address = address
        self.diverged = None
    self._disconnect()
    self.wake()


@bug("slave-clamps-offsets", Broker, "load", found_by=("REP",))
@needs(_READS)
def load_and_clamp(self: Broker) -> None:
    """A slave that starts reduces the offsets of groups to the ends of its own queues."""
    load_and_clamp.original(self)
    if self.is_slave:
        bit(self.offsets.clamp_to_queues(self.store) > 0)


# Alibaba's rocketmq issue 395: a slave far behind replaces its master, and consumers ask beyond the ends of its queues.
@bug("offsets-trusted-after-stop", ConsumerOffsetManager, "clamp_to_queues", found_by=("META",))
@needs(_LAGS)
def clamp_after_crash(self: ConsumerOffsetManager, store: AnyMessageStore) -> int:
    """A slave that lags stops, starts as the master, and keeps offsets beyond the ends of its queues."""
    report = store.last_recovery
    if report is None or not report.clean_exit:
        return clamp_after_crash.original(self, store)
    ends = store.get_max_offset_in_queue
    bit(any(at > ends(topic, id_) for topic, _, offsets in self.all_offsets() for id_, at in offsets.items()))
    return 0


@bug("slave-keeps-greater-offset", ConsumerOffsetManager, "replace", found_by=("REP",))
@needs(_LAGS.replace(**RETURNING_MASTER))
def replace_by_greater(self: ConsumerOffsetManager, raw: bytes, sender: str) -> None:
    """A former master that returns as a slave keeps each offset that is greater than that of its new master."""
    before = {key: dict(offsets) for key, offsets in self._offsets.items()}
    replace_by_greater.original(self, raw, sender)
    with self._lock:
        for key, offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                own = before.get(key, {}).get(queue_id, 0)
                bit(own > offset)
                offsets[queue_id] = max(own, offset)


@bug("slave-copies-no-check-progress", ConsumerOffsetManager, "replace", found_by=("REP",))
@needs(_TRANSACTIONS)
def replace_offsets_of_users(self: ConsumerOffsetManager, raw: bytes, sender: str) -> None:
    """A slave does not copy the progress of the transaction check, and asks again as the new master."""
    replace_offsets_of_users.original(self, raw, sender)
    with self._lock:
        of_check = [key for key in self._offsets if key.endswith(f"@{CHECK_GROUP}")]
        for key in of_check:
            bit()
            del self._offsets[key]


# After a comment in apache/rocketmq#6153: a master registers before it knows its address for slaves.
@bug("registration-without-an-address-for-slaves", BrokerRegistration, "__init__", found_by=("QUIET",))
@needs(_READS)
def keep_first_ha_address(
    self: BrokerRegistration,
    parts: BrokerParts,
    address: str,
    ha_address: Callable[[], str],
    on_master: Callable[[str, str], None],
) -> None:
    """A broker registers the address for slaves that it had before it listened, which is none."""
    known = ha_address()

    def first_ha_address() -> str:
        bit(known != ha_address())
        return known

    keep_first_ha_address.original(self, parts, address, first_ha_address, on_master)


# Alibaba's rocketmq issue 3439: a slave lacks topics of its master.
@bug("slave-with-ha-address-copies-no-tables", Broker, "_follow_master", found_by=("REP",))
@needs(_SET_UP)
def follow_unless_set_up(self: Broker, address: str, ha_address: str) -> None:
    """A slave with haMasterAddress takes no address from name servers, also not that for its tables."""
    if self.store.config.ha_master_address:
        bit(self.synchronize is not None and not self.config.master_addr)
    else:
        follow_unless_set_up.original(self, address, ha_address)


@bug("slave-trusts-name-server-more-than-settings", Broker, "_follow_master", found_by=("REP",))
@needs(_LAGS.replace(broker={"slaves_avoid_master": (False,)}))
def follow_registered_master(self: Broker, address: str, ha_address: str) -> None:
    """A slave with haMasterAddress copies the log from the master that a name server names."""
    follow_registered_master.original(self, address, ha_address)
    if self.ha is not None and ha_address:
        bit(self.store.config.ha_master_address not in ("", ha_address))
        self.ha.update_master_address(ha_address)
