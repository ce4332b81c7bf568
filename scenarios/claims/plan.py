"""Plans: what a seed decides before anything runs. Sizes, traffic, faults, and how each life of the store ends."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from ...faults.disk.image import RotPlan
from ...faults.plan import FaultPlan, NetworkPlan
from ...sim.disturbances import DisturbancePlan
from . import features
from .disk_models import DISK_MODELS
from .features import Knob, knob, knobs_of


class LifeEnding(StrEnum):
    """How a life of a store ends."""

    CRASH_IN_LOAD = "crash in load"
    CRASH_IN_TRAFFIC = "crash in traffic"
    CRASH_IN_PERSIST = "crash in persist"
    """From when progress is first persisted."""
    CRASH_AT_REST = "crash at rest"
    CRASH_ON_OLD_BLOCKS = "crash on old blocks"
    """At rest, behind whose log an older segment's bytes appear."""
    STOP = "stop"
    STOP_IN_TRAFFIC = "stop in traffic"
    """While users are at it."""
    STOP_AND_DAMAGE = "stop and damage"
    """Then a sector of the log is lost."""
    STOP_AND_DAMAGED_PROGRESS = "stop and damaged progress"
    """Then a sector of what consumers committed is lost."""
    STOP_AND_DAMAGED_RECORD = "stop and damaged record"
    """Then a bit of a record rots that the next start takes for durable, and the queues may be lost."""
    STOP_AND_FLIPPED_NUMBER = "stop and flipped number"
    """Then a bit of a record's queueOffset rots."""
    STOP_AND_ODD_FILE = "stop and odd file"
    """Then somebody tries to start beside a segment of a wrong size."""
    STOP_AND_FULL_DISK = "stop and full disk"
    """Then queues and index are lost, and the next start finds no room for their files."""
    STOP_AND_MISSING_SEGMENT = "stop and missing segment"
    """Then a segment between two others is missing, and those before it are older than retention keeps any."""
    STOP_AND_LARGER_QUEUE_FILES = "stop and larger queue files"
    """Then the files of queues have twice the size by the settings, if the names of all of them allow it."""
    STOP_AND_STRAYS = "stop and strays"
    """Then foreign names are among the queues, a queue's file is cut or the checkpoint is damaged."""

    @property
    def is_stop(self) -> bool:
        """Return whether the store is stopped."""
        return self.value.startswith("stop")


DAMAGING = frozenset(
    ending for ending in LifeEnding if " and " in ending.value or ending is LifeEnding.CRASH_ON_OLD_BLOCKS
)
"""Behind which files are not as the store left them."""


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a store, from power-on to its end."""

    ending: LifeEnding
    profile: str
    """What the crash leaves: a name in `PROFILES`. Unused by stops."""
    operation: int
    """Number of the disk operation the crash hits, if it comes to that; -1 without one."""
    moment: str
    messages_each: int
    """Messages per producer in this life."""
    node: int = 0
    """Which machine ends: 0 is the master, slaves count from 1, then come other masters. The others live on."""

    @property
    def is_stop(self) -> bool:
        """Return whether the store is stopped."""
        return self.ending.is_stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One drawn run: a core, and a part for each feature. Sizes are bytes, times ms of virtual time.

    Knobs are drawn in the order in which they stand here, and the default of one that comes new leaves stored plans
    as they were.
    """

    sync_flush: bool = knob(True, False)
    commit_log_bytes: int = knob(2048, 4096, 8192, 16384)
    consume_queue_bytes: int = knob(100, 200, 1000)
    recover_whole_log: bool = knob(True, False, plain=True)
    producers: int = knob(1, 2, 3, least=1)
    consumers: int = knob(0, 0, 1, plain=0, weight=1)
    topics: int = knob(1, 2, plain=1)
    queues_per_topic: int = knob(1, 2, plain=1)
    messages: features.MessagePlan = features.MessagePlan()
    pauses: features.PausePlan = features.PausePlan()
    flush: features.FlushPlan = features.FlushPlan()
    sync_ms_max: int = knob(1, 10, least=1)
    disk: str = knob(
        *("strict-posix",) * 2, "ext4-ordered", "ext4-data", "xfs", "btrfs", "process-kill", "nothing-lost"
    )
    """What the store runs on: a name in `DISK_MODELS`."""
    index: features.IndexPlan = features.IndexPlan()
    memory: features.MemoryPlan = features.MemoryPlan()
    delay: features.DelayPlan = features.DelayPlan()
    transactions: features.TransactionPlan = features.TransactionPlan()
    light_queues: features.LightQueuePlan = features.LightQueuePlan()
    consuming: features.ConsumingPlan = features.ConsumingPlan()
    retention: features.RetentionPlan = features.RetentionPlan()
    capacity_bytes: int = knob(0, plain=0, weight=2, in_sessions=False)
    """Of the disk while there is traffic; 0 is more than anyone needs."""
    policy: str = knob(*("random-walk",) * 6, *("pct",) * 3, *("pos",) * 3, "round-robin")
    """A name in `scenario.POLICIES`."""
    heals: bool = knob(True, False, plain=False, weight=5)
    """Whether the run is for liveness: the world heals in the end, and the store must work again."""
    starved_steps_max: int = knob(0)
    """How long one task may have to stand back behind all others; 0: none has to."""
    attribute_points: bool = knob(False, plain=False, in_sessions=False)
    """Whether tasks switch at plain attributes of the store, too, as threads do, and not at calls of the world only."""
    forced_branch_chance: float = knob(0.0, plain=0.0, in_sessions=False)
    """How often a rare branch of the store is taken although its condition does not hold: a mark in `FORCIBLE`."""
    starts: features.StartPlan = features.StartPlan()
    directories: features.DirectoryPlan = features.DirectoryPlan()
    errors_stop: bool = knob(True)
    """Whether, in a run for liveness, the disk's errors stop when the users of a life have done their work: the store
    has to recover in that very life."""
    faults: FaultPlan = FaultPlan()
    """What goes wrong on the disk; a file cannot fail to be made but while there is traffic."""
    rot: RotPlan = RotPlan()
    """What becomes of files while the store is off."""
    disturbances: DisturbancePlan = DisturbancePlan()
    """What happens to tasks and clocks while there is traffic."""
    cluster: features.ClusterPlan = features.ClusterPlan()
    network: NetworkPlan = NetworkPlan()
    """What happens between machines while there is traffic."""
    broker: features.BrokerPlan = features.BrokerPlan()
    policy_parameter: int
    """Mean stretch of the random walk, depth of PCT, quantum of round robin; 0 for POS."""
    lives: tuple[Life, ...]
    left_out: tuple[str, ...] = ()
    """Messages that their producers pass over, by name."""

    def __post_init__(self) -> None:
        assert self.disk in DISK_MODELS, self.disk
        assert min(self.producers, self.topics, self.queues_per_topic) > 0, "nobody to put, or nowhere"
        assert self.is_alone or self.directories == features.DirectoryPlan(), "directories of several machines"

    @property
    def is_alone(self) -> bool:
        """Return whether it is of one store and nothing else: such runs are explored by recovering each state alone."""
        return not self.cluster.slaves and not self.broker.serves

    def value(self, path: str) -> Any:
        """Return what a knob is, by its path in `KNOBS`."""
        feature, _, name = path.rpartition(".")
        return getattr(getattr(self, feature) if feature else self, name)

    def replace(self, **changes: Any) -> "Plan":
        """Return the plan with other values; a mapping has those fields of a feature that change."""
        whole = {
            name: replace(getattr(self, name), **change) if isinstance(change, Mapping) else change
            for name, change in changes.items()
        }
        return replace(self, **whole)

    def with_values(self, values: Mapping[str, Any]) -> "Plan":
        """Return the plan with other values, by path."""
        changes: dict[str, Any] = {}
        for path, value in values.items():
            feature, _, name = path.rpartition(".")
            (changes.setdefault(feature, {}) if feature else changes)[name] = value
        return self.replace(**changes)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> "Plan":
        """Return the plan that `to_json` gave; ValueError naming a field that is missing, unknown or ill-typed.

        A knob may be missing: it is younger than what was stored.
        """
        try:
            plan = msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$")
            raise ValueError(f"plan{place.rstrip('`')}: {what}") from error
        _refuse_unknown(values, plan.to_json(), "plan")
        return plan


def _refuse_unknown(values: object, known: object, place: str) -> None:
    if isinstance(values, dict) and isinstance(known, dict):
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"{place}.{name}: unknown")
            _refuse_unknown(value, known[name], f"{place}.{name}")
    elif isinstance(values, list) and isinstance(known, tuple):
        for number, (value, twin) in enumerate(zip(values, known, strict=True)):
            _refuse_unknown(value, twin, f"{place}[{number}]")


FEATURES: dict[str, type] = {each.name: type(each.default) for each in fields(Plan) if is_dataclass(each.default)}
"""The parts of a plan, by name."""
KNOBS: dict[str, Knob] = {
    path: found
    for name, own in knobs_of(Plan)
    if name != "left_out"
    for path, found in (
        [(f"{name}.{one}", each) for one, each in knobs_of(FEATURES[name])] if name in FEATURES else [(name, own)]
    )
}
"""Every knob, in the order of the plan: the core's by name, a feature's as `delay.chance`."""
