"""Bugs of dispatch, and of services that end silently."""

from ....store.config import FlushDiskType
from ....store.errors import StoreError, is_disk_full
from ....store.queues import dispatch
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.queues.dispatch import DispatchService
from ....store.service import Service
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.answers import NEW_QUEUES
from ..mutant import bit, bug, needs


@bug("reput-past-flushed", DispatchService, "readable_limit", found_by=("VIS", "REP"))
@needs(
    sync_flush=(True,),
    consumers=(1, 2),
    sync_ms_max=(10,),
    disk=("ext4-ordered", "strict-posix"),
    endings=("crash in traffic",),
)
def readable_limit_of_appended(self: DispatchService) -> int:
    """Under sync flush, consumers see messages that are not durable yet."""
    bit(self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH)
    return self._commit_log.queue.max_offset


@bug("reput-dies-on-error", DispatchService, "run_once", found_by=("LIVE", "QUIET"))
@needs(faults={"failed_creation_chance": (0.2,)})
def step_without_os_errors(self: DispatchService) -> None:
    """A failed file creation ends the dispatcher, so no new message becomes visible."""
    _dispatch(self, StoreError)


def _dispatch(self: DispatchService, *survived: type[StoreError] | type[OSError]) -> None:
    try:
        moved = self.dispatch_available()
    except survived as error:
        self.last_error = error
        self.pause(1_000)
        return
    except OSError:
        bit()
        raise
    if not moved:
        self.signal.wait(None)


# In the mutant reput-dies-on-error only a failed file creation ends dispatch.
@bug("reput-never-retries", DispatchService, "run_once", found_by=("LIVE", "QUIET"))
@needs(faults={"failed_map_chance": (0.1,)})
def step_until_error(self: DispatchService) -> None:
    """One disk error ends the dispatcher although a retry would succeed."""
    if bit(self.last_error is not None and not is_disk_full(self.last_error)):
        self.signal.wait(None)
    else:
        _dispatch(self, StoreError, OSError)


# Found in this store: only the end of a segment reset the error count.
@bug("dispatch-adds-failures-up", DispatchService, "run_once", found_by=("STATUS",))
@needs(
    faults={"failed_map_chance": (0.5,)},
    commit_log_bytes=(16_384,),
    consume_queue_bytes=(20,),
    producers=(3,),
    messages_each=(24,),
    pauses={"chance": (1.0,), "ms_max": (10_000,)},
    endings=("crash at rest",),
)
def step_counting_all_errors(self: DispatchService) -> None:
    """After thirty errors since the start, dispatch ends and the store refuses puts, although each retry succeeded."""
    before, error = self.failures, self.last_error
    step_counting_all_errors.original(self)
    if self.last_error is None or self.last_error is error or is_disk_full(self.last_error):
        return
    if bit(self.failures <= before):
        self.failures = before + 1


@bug("service-dies-silently", Service, "_run_until_stopped", found_by=("LIVE", "QUIET", "STATUS"))
@needs(memory={"error_chance": (0.5,)})
def run_unguarded(self: Service) -> None:
    """An unexpected error silently ends a service, and the store continues without the service."""
    try:
        while not self.is_stopping:
            self.run_once()
        self.finish_remaining_work()
    except Exception:
        bit()
        raise


# alibaba/rocketmq issue 419.
@bug("queue-made-twice", ConsumeQueueTable, "find_or_create", found_by=("STATUS", "READ", "CQ-COMPLETE", "LIVE"))
@needs(SCENARIOS["tag-filter-exact"].ranges, **NEW_QUEUES)
def make_without_second_look(self: ConsumeQueueTable, topic: str, queue_id: int) -> ConsumeQueue:
    """If dispatch and a client both create a queue, the second one replaces the first with its entries."""
    queue = self._queues.get((topic, queue_id))
    if queue is None:
        with self._lock:
            queue = self._make_queue(topic, queue_id)
            bit((topic, queue_id) in self._queues)
            self._queues[topic, queue_id] = queue
    return queue


# alibaba/rocketmq issue 331.
@bug("full-disk-exhausts-dispatch", dispatch, "is_disk_full", found_by=("LIVE", "STATUS"))
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def count_full_disk(error: Exception) -> bool:
    """If the disk stays full for half a minute, dispatch gives up, and the store refuses puts until a restart."""
    bit(count_full_disk.original(error))
    return False
