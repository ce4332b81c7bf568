"""Plans for the real store: define the recorded puts, and the findings that crashes must reproduce.

A plan has settings of broker.conf. Files are small, so that some tens of puts fill several of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

START, REFUSED, PREFIX, RETURNED, ZERO, DUE = "START", "REFUSED", "PREFIX", "RETURNED", "ZERO", "DUE"
TAG, FORGOTTEN, TWICE, HOLE, LOST = "TAG", "FORGOTTEN", "TWICE", "HOLE", "LOST"
OF_4, OF_5 = "rocketmq-4.9.8", "rocketmq-5.3.3"
FINDINGS = {
    OF_4: {
        "start-refused": START,
        "torn-properties": PREFIX,
        "zero-entries": ZERO,
        "due-at-once": DUE,
        "forgotten-key": FORGOTTEN,
        "found-twice": TWICE,
        "lost-tag": TAG,
        "hole-in-queue": HOLE,
        "cut-record-returns": RETURNED,
    },
    OF_5: {"start-refused-5": REFUSED},
}
"""Published findings of each version, with the kind that the check server reports for each."""
DELAY_LEVELS = "1s 3s 20s"
DELAY_LEVEL, DELAY_MS = 3, 20_000
_SETTINGS = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 200,
    "maxHashSlotNum": 5,
    "maxIndexNum": 200,
    "messageIndexEnable": True,
    "messageDelayLevel": DELAY_LEVELS,
    "fileReservedTime": 300_000,
    "deleteWhen": "25",
    "cleanFileForciblyEnable": False,
    "diskMaxUsedSpaceRatio": 95,
}
_UNFLUSHED = {"flushCommitLogTimed": True, "flushIntervalCommitLog": 60_000}
"""Used only for the recording, because a stopped store waits until the end of this interval."""
Put = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the real store. settings: in addition to the common ones; disks: the disk models to crash.

    is_flushed: whether the log is synced by default during the run: at the first put, and then twice a second.

    before: the run of a first life that ended with a power cut. The crash image has a part of one record, so recovery
    truncates the log there, and has nothing of the next record, which `gone` names.
    """

    name: str
    puts: Sequence[Put]
    disks: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    settle_ms: int = 200
    is_flushed: bool = True
    version: str = OF_4
    before: "Plan | None" = None
    gone: str = ""

    @property
    def config(self) -> dict[str, object]:
        """Return all settings by their names in broker.conf."""
        return {**_SETTINGS, **self.settings}

    @property
    def command(self) -> dict[str, Any]:
        """Return the argument of the recorded program."""
        producers = [list(self.puts)]
        config = self.config if self.is_flushed else self.config | _UNFLUSHED
        return {"root": "store", "config": config, "producers": producers, "settleMs": self.settle_ms}


def put(name: str, queue: int = 0, *, body_bytes: int = 60, pause_ms: int = 3, is_delayed: bool = False) -> Put:
    """Return a message with a key, a tag and a property that is too long to be written in one step."""
    properties = {"KEYS": name, "TAGS": f"Tag{name[-1]}", "extra": "x" * 70}
    if is_delayed:
        properties["DELAY"] = str(DELAY_LEVEL)
    whole = {"flag": 0, "sysFlag": 0, "prepared": 0, "bornHost": "127.0.0.1", "pauseMs": pause_ms}
    return {"name": name, "topic": "T", "queueId": queue, "body": "b" * body_bytes, "properties": properties, **whole}


_SYNC = {"flushDiskType": "SYNC_FLUSH"}
_LATE_MS = 4_500
_LONG_BYTES = 3 * 4096
"""Body size at which a power cut can lose one page and keep the pages before and after it."""
_LONG = {"mappedFileSizeCommitLog": 1 << 16}
PLANS = (
    Plan("puts", [put(f"k{n}") for n in range(7)], ("process-kill",), {**_SYNC, "maxIndexNum": 5}, 300),
    Plan("delayed", [put("k0", is_delayed=True), put("k1")], ("process-kill", "ext4-data"), _SYNC),
    Plan(
        "late",
        [put("k0"), *(put(f"k{n}", pause_ms=_LATE_MS if n in (1, 5) else 3) for n in range(1, 6))],
        ("process-kill",),
        {**_SYNC, "mappedFileSizeCommitLog": 1024, "flushConsumeQueueThoroughInterval": 500},
        1_500,
    ),
    Plan(
        "burst",
        [put(f"k{n}", body_bytes=10, pause_ms=0) for n in range(24)],
        ("xfs",),
        {"mappedFileSizeConsumeQueue": 100},
    ),
    Plan(
        "four queue files of 5.3.3",
        [put(f"k{n}", body_bytes=10, pause_ms=0) for n in range(8)],
        ("xfs",),
        {"mappedFileSizeConsumeQueue": 40, "messageIndexEnable": False},
        is_flushed=False,
        version=OF_5,
    ),
    Plan(
        "second life",
        [put("k4", body_bytes=_LONG_BYTES)],
        ("process-kill",),
        _LONG,
        before=Plan("first life", [put(f"k{n}", body_bytes=_LONG_BYTES) for n in range(1, 4)], ("ext4-data",), _LONG),
        gone="k3",
    ),
    Plan(
        "two queues",
        [put(f"k{n}", queue=int(n in (1, 6, 9))) for n in range(12)],
        ("btrfs",),
        {
            "flushDiskType": "SYNC_FLUSH",
            "mappedFileSizeConsumeQueue": 40,
            "messageIndexEnable": False,
            "flushConsumeQueueThoroughInterval": 500,
        },
        1_500,
    ),
)
