"""Marks: the rare states that a whole run reached, such as a crash in a certain step."""

from collections import Counter
from typing import NamedTuple

from ...faults.disk.disk import Disk
from ...faults.disk.fault_injector import CrashPhase
from ...store.directories import directory_of
from ...store.formats.index import HEADER_BYTES, SLOT_BYTES
from ...store.marks import MARKS as STORE_MARKS
from ..claims.machine import config_of
from ..claims.plan import Life, Plan
from ..oracle import allowances

_RUN_MARKS: dict[str, str] = {
    "index torn before slot": "a machine died between the writes of an index entry and of its slot",
    "index torn before header": "a machine died between the writes of an index slot and of the header",
    "crash in segment sync": "a machine died while a new segment was made durable",
    "crash in rename": "a machine died during a rename that replaces a side file",
    "crash in checkpoint": "a machine died while the checkpoint was written",
    "crash in truncation": "a machine died while recovery removed or zeroed truncated data",
    "crash in recovery": "a machine died during recovery",
    "crash in recovery, twice": "a machine died during two recoveries in a row",
    "crash in recovery, three times": "a machine died during three recoveries in a row",
    "kill, then power cut": "a process was killed, and the power failed before its data was durable",
    "power cut after failed sync": "the power failed in a life with a failed sync",
    "message stored twice": "a message was stored again because its first send had no answer",
    "answer from a dead broker": "a client received an answer of a broker that had died since",
    "client asked": "a broker passed an operator's question on to its clients",
    "light queue read": "a consumer received messages of a light queue from a broker",
    "pulled from a slave": "a consumer received messages from a slave",
    "lookup at a slave": "a slave answered a lookup by key, id or time, or for the bounds of a queue",
    "slave took over": "a slave restarted as master after the loss of its master",
    "roles changed": "a slave became the master while the former master ran, and the former master returned as a slave",
    "former master diverged": "a former master that returned as a slave reported that its log differs",
    "slave moved at first bytes": "a slave got the address of another master at the first bytes of its master",
    "slave lagged": "a slave with the tables but not the whole log of its master restarted as master",
    "lost master returned": "after a slave had replaced a lost master, this master restarted as a slave",
    "slave absent": "a slave stayed off while its master ran",
    "slave died": "a slave died while its master continued",
    "slave disk lost": "a slave restarted with an empty disk",
    "slave disk reused": "a slave started on a disk with the tables of another cluster",
    "consumer moved past expired": "a consumer requested expired messages, and continued at the first remaining one",
    "producer failover": "a producer without an answer from one broker continued at another",
    "name server failover": "a client without an answer from one name server used another",
    "half message decided in check": "a producer decided a half message in its answer to a check request",
    "message sent back": "a consumer sent a message back for a retry, and the broker acknowledged it",
    "sent to retry topic": "a consumer sent a message to the retry topic itself, and the broker acknowledged it",
    "message refused for good": "a broker refused a message that no record can hold, and its producer gave it up",
    "access refused": "a request of an account was refused, as the access rules require",
    "account changed": "an administrator changed an account or a white list",
    "setting changed": "an operator changed settings of a running broker, and the broker acknowledged it",
    "transaction check resumed": "an operator resumed the check of a half message that was given up",
}

MARKS: dict[str, str] = {**STORE_MARKS, **_RUN_MARKS}

_DEPTHS = ("crash in recovery", "crash in recovery, twice", "crash in recovery, three times")


class ReachedMark(NamedTuple):
    """A mark of the store that a run has just reached, for traces."""

    name: str


class RunMarks:
    """Detects the rare states of one run at the end of each life."""

    def __init__(self, plan: Plan, hits: Counter[str]) -> None:
        self._config = config_of(plan)
        self._slots_end = HEADER_BYTES + plan.index.slots * SLOT_BYTES
        self.hits = hits
        self._in_recovery = 0
        """How many consecutive starts ended before recovery was complete."""
        self._was_killed = False

    def note_end(self, life: Life, disk: Disk, *, crashed: bool, recovered: bool) -> None:
        """recovered: whether the store was loaded before the end of the life."""
        self._in_recovery = self._in_recovery + 1 if crashed and not recovered else 0
        if self._in_recovery:
            self.hits[_DEPTHS[min(self._in_recovery, len(_DEPTHS)) - 1]] += 1
        if not crashed:
            self._was_killed = False
            return
        if life.profile not in ("process-kill", "nothing-lost"):
            self.hits["kill, then power cut"] += self._was_killed
            self.hits["power cut after failed sync"] += allowances.count_sync_errors(disk) > 0
        self._was_killed = life.profile == "process-kill"
        self._note_operation(life, disk, recovered=recovered)

    def _note_operation(self, life: Life, disk: Disk, *, recovered: bool) -> None:
        met = disk.crash_site
        if met is None:
            return
        root, logs = self._config.store_path_root_dir, self._config.commit_log_directories
        folder = met.path.removeprefix(f"{root}/").partition("/")[0]
        if met.path in logs or directory_of(met.path) in logs:
            folder = "commitlog"
        if folder == "index" and met.kind == "store" and life.moment != CrashPhase.AFTER:
            if HEADER_BYTES <= met.at < self._slots_end:
                self.hits["index torn before slot"] += 1
            elif met.at < HEADER_BYTES:
                self.hits["index torn before header"] += 1
        elif folder == "commitlog" and met.kind in ("sync", "sync directory") and recovered:
            self.hits["crash in segment sync"] += 1
        elif folder == "config" and met.kind == "rename":
            self.hits["crash in rename"] += 1
        elif folder == "checkpoint" and met.kind == "store":
            self.hits["crash in checkpoint"] += 1
        elif folder in ("commitlog", "consumequeue") and met.kind in ("unlink", "store") and not recovered:
            self.hits["crash in truncation"] += 1
