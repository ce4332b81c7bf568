"""Bugs of dispatch, and of services that end without a sign."""

from ....store.config import FlushDiskType
from ....store.errors import StoreError, is_disk_full
from ....store.queues.dispatch import DispatchService
from ....store.service import Service
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #4 reput-past-flushed: under SYNC_FLUSH dispatch follows the append position instead of the flushed one.
# Consumers are given messages whose producers have no answer yet, and which a power cut takes back.
def _appended_limit(self: DispatchService) -> int:
    bit(self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH)
    return self._commit_log.queue.max_offset


REPUT_PAST_FLUSHED = Mutant(
    "reput-past-flushed",
    "under sync flush, consumers are shown what is not durable yet",
    (Patch(DispatchService, "readable_limit", _appended_limit),),
    ("VIS",),
    Ranges(
        sync_flush=(True,),
        consumers=(1, 2),
        sync_ms_max=(10,),
        disk=("ext4-ordered", "strict-posix"),
        endings=("crash in traffic",),
    ),
)


# #18 reput-dies-on-error: one class of errors ends the dispatcher for good, while puts go on being acknowledged.
def _step_without_os_errors(self: DispatchService) -> None:
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


REPUT_DIES_ON_ERROR = Mutant(
    "reput-dies-on-error",
    "a file that cannot be made ends the dispatcher, and nothing becomes visible any more",
    (Patch(DispatchService, "step", _step_without_os_errors),),
    (
        "LIVE",
        "QUIET",
    ),
    Ranges(faults={"failed_creation_chance": (0.2,)}),
)


# reput-never-retries: dispatch never tries again after one error of the disk. What is put from then on is seen by
# nobody, nothing says so, and puts go on being acknowledged. Its sibling, reput-dies-on-error, ends at what cannot be
# made; this one at any error but want of space, which the disk need not ever show again.
def _step_until_error(self: DispatchService) -> None:
    if bit(self.last_error is not None and not is_disk_full(self.last_error)):
        self.signal.wait(None)
    else:
        _dispatch(self, StoreError, OSError)


REPUT_NEVER_RETRIES = Mutant(
    "reput-never-retries",
    "one error of the disk ends the dispatcher for good, though the next attempt would do",
    (Patch(DispatchService, "step", _step_until_error),),
    (
        "LIVE",
        "QUIET",
    ),
    Ranges(faults={"failed_map_chance": (0.1,)}),
)


# dispatch-adds-failures-up: what dispatch has failed at counts for the whole life, however often it got on meanwhile.
# It was this store's bug as long as it had not finished a segment: with what passes in the end, it gave up for good.
_original_step = DispatchService.step


def _step_adding_up(self: DispatchService) -> None:
    before, error = self._failures, self.last_error
    _original_step(self)
    if self.last_error is None or self.last_error is error or is_disk_full(self.last_error):
        return
    if bit(self._failures <= before):
        self._failures = before + 1


DISPATCH_ADDS_FAILURES_UP = Mutant(
    "dispatch-adds-failures-up",
    "thirty errors in a life end dispatch, and with it all puts, though each of them has passed",
    (Patch(DispatchService, "step", _step_adding_up),),
    ("STATUS",),
    Ranges(
        faults={"failed_map_chance": (0.5,)},
        commit_log_bytes=(16_384,),
        consume_queue_bytes=(20,),
        producers=(3,),
        messages_each=(24,),
        pauses={"chance": (1.0,), "ms_max": (10_000,)},
        endings=("crash at rest",),
    ),
)


# service-dies-silently: a service ends of what it did not foresee, without a word. Puts go on, its work is not
# done.
def _run_unguarded(self: Service) -> None:
    try:
        while not self.is_stopping:
            self.step()
        self.finish()
    except Exception:
        bit()
        raise


SERVICE_DIES_SILENTLY = Mutant(
    "service-dies-silently",
    "a service that ends of an unforeseen error ends without a word, and the store goes on as if it were there",
    (Patch(Service, "_run", _run_unguarded),),
    ("LIVE", "QUIET", "STATUS"),
    Ranges(memory={"error_chance": (0.5,)}),
)
