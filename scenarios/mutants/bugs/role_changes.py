"""Bugs of role changes: a slave follows another master while the former one runs, or comes back."""

from ....store.errors import CorruptFileError, DivergedError
from ....store.marks import count_mark
from ....store.network import Connection
from ....store.replication.ha_client import HAClient
from ....store.replication.replica_log import ReplicaLog
from ...claims.catalogue.clusters import CLUSTER, ROLE_CHANGES
from ..mutant import bit, bug, needs

_ROLE_CHANGES = CLUSTER.replace(**ROLE_CHANGES)


# RocketMQ's HAClient.updateMasterAddress closes no connection, either.
@bug("slave-keeps-former-connection", HAClient, "update_master_address", found_by=("QUIET",))
@needs(_ROLE_CHANGES)
def update_address_only(self: HAClient, address: str) -> None:
    """A slave that gets a new master copies the former one, until its connection ends for another reason."""
    if address == self.master_address:
        return
    with self._lock:
        self.master_address = address
        self.diverged = None
    bit(self._connection is not None)
    self.wake()


# KAFKA-7786: a late error of the former leader epoch marks a partition as failed under the new one.
@bug("former-divergence-stops-slave", HAClient, "_replicate_from", found_by=("REP",))
@needs(_ROLE_CHANGES)
def replicate_and_keep_divergence(self: HAClient, connection: Connection, replica: ReplicaLog, address: str) -> None:
    """A slave never follows its new master if it gets the address just when its log differs from the former one's."""
    with self._lock:
        self._connection = connection
    try:
        if not self.is_stopping and address == self.master_address:
            self._receive_stream(connection, replica)
    except DivergedError as error:
        count_mark("slave diverged")
        with self._lock:
            bit(address != self.master_address)
            self.diverged = error
        self.on_diverged(address, error)
    except (OSError, CorruptFileError) as error:
        self.last_error = str(error)
    self._disconnect()
    connection.close()
    self._store.flush.wait_durable(self._store.log.max_offset, wait=False)


@bug("slave-follows-former-log", ReplicaLog, "start_stream", found_by=("REP",))
@needs(_ROLE_CHANGES)
def start_after_last_record(self: ReplicaLog, kept_offset: int) -> int:
    """A former master that returns requests the bytes after its own log, and so joins two histories."""
    begin = start_after_last_record.original(self, kept_offset)
    end = min(self._log.max_offset, kept_offset)
    if bit(self._last_record is not None and end > begin):
        self._expected = end
    return self._expected
