"""Apache RocketMQ 4.9.8: which bugs it has, and what else it does otherwise than the store here."""

from ....claims.ranges import Ranges
from ..version import Version
from .delivery import DELAY_LEVELS_AFTER_RECOVERY, DELIVERY_PROGRESS_AHEAD, UNCORRECTED_PROGRESS_KEPT
from .facts import FACTS
from .opening import LEFTOVER_REOPENED, MARKER_AFTER_SERVICES, PAGE_CACHE_TAKEN_FOR_DISK
from .unsynced import (
    COMMIT_TIME_OF_LAST_PUT,
    INDEX_NAMES_UNSYNCED,
    QUEUE_NAMES_UNSYNCED,
    QUEUE_PASS_FLUSHES_ONE_FILE,
    REMOVALS_UNSYNCED,
    SHORT_WRITE_UNNOTICED,
    SIDE_FILE_COPIED_AND_DELETED,
)


def _narrow(ranges: Ranges) -> Ranges:
    """Its recovery begins where the checkpoint says, and there is no setting for that."""
    return ranges.replace(recover_whole_log=(False,))


ROCKETMQ_4_9_8 = Version(
    "rocketmq-4.9.8",
    "the store with the bugs that Apache RocketMQ 4.9.8 has for certain",
    FACTS,
    (
        MARKER_AFTER_SERVICES,
        PAGE_CACHE_TAKEN_FOR_DISK,
        LEFTOVER_REOPENED,
        REMOVALS_UNSYNCED,
        QUEUE_NAMES_UNSYNCED,
        QUEUE_PASS_FLUSHES_ONE_FILE,
        INDEX_NAMES_UNSYNCED,
        SIDE_FILE_COPIED_AND_DELETED,
        DELAY_LEVELS_AFTER_RECOVERY,
        DELIVERY_PROGRESS_AHEAD,
        UNCORRECTED_PROGRESS_KEPT,
        COMMIT_TIME_OF_LAST_PUT,
        SHORT_WRITE_UNNOTICED,
    ),
    _narrow,
)
