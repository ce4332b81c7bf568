"""Plans: sizes, traffic, faults and crashes of a run, chosen at random from its seed."""

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
from .features import Knob, knob_field, knobs_of


class LifeEnding(StrEnum):
    """How a `Life` ends. STOP_AND_…: the event follows a clean stop."""

    CRASH_IN_LOAD = "crash in load"
    CRASH_IN_TRAFFIC = "crash in traffic"
    CRASH_IN_PERSIST = "crash in persist"
    """A crash after the store first persists the progress of delivery or consumers."""
    CRASH_AT_REST = "crash at rest"
    CRASH_ON_OLD_BLOCKS = "crash on old blocks"
    """A crash without traffic. Bytes of a deleted segment then appear after the log's end."""
    STOP = "stop"
    STOP_IN_TRAFFIC = "stop in traffic"
    STOP_AND_DAMAGE = "stop and damage"
    """One sector of the log is lost."""
    STOP_AND_DAMAGED_PROGRESS = "stop and damaged progress"
    """A sector of the committed consumer offsets is lost."""
    STOP_AND_DAMAGED_RECORD = "stop and damaged record"
    """A bit flips in a record that the next start considers durable. The queues may be lost, too."""
    STOP_AND_FLIPPED_NUMBER = "stop and flipped number"
    """A bit of a record's queueOffset flips."""
    STOP_AND_ODD_FILE = "stop and odd file"
    """A start is attempted with a file of the wrong size, kind or name."""
    STOP_AND_FULL_DISK = "stop and full disk"
    """Queues and index are lost, and at the next start the disk has no space for them."""
    STOP_AND_MISSING_SEGMENT = "stop and missing segment"
    """A segment in the middle is lost, and earlier segments become old enough to expire."""
    STOP_AND_LARGER_QUEUE_FILES = "stop and larger queue files"
    """The configured size of queue files is doubled, if existing file names allow this."""
    STOP_AND_STRAYS = "stop and strays"
    """Foreign files appear, a queue file is truncated or the checkpoint is damaged."""

    @property
    def is_stop(self) -> bool:
        return self.value.startswith("stop")


DAMAGING = frozenset(
    ending for ending in LifeEnding if " and " in ending.value or ending is LifeEnding.CRASH_ON_OLD_BLOCKS
)
"""Endings after which the test changes the store's files while the store is off."""


@dataclass(frozen=True, slots=True)
class Life:
    """The time from a machine's start to its stop or crash."""

    ending: LifeEnding
    profile: str
    """The crash, by its name in `PROFILES`. Unused by stops."""
    operation: int
    """The disk operation, by number, at which the machine crashes. The life may end earlier. -1: no such crash."""
    moment: str
    messages_each: int
    node: int = 0
    """The machine that ends: 0 is the master, then come slaves, then other masters. All others keep running."""

    @property
    def is_stop(self) -> bool:
        return self.ending.is_stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The random values of one run: core knobs, and a spec for each feature. Sizes are in bytes, times in ms of virtual
    time.

    Values are chosen in the order of the fields. A new knob needs a default with which stored plans keep their meaning.
    """

    sync_flush: bool = knob_field(True, False)
    commit_log_bytes: int = knob_field(2048, 4096, 8192, 16384)
    consume_queue_bytes: int = knob_field(100, 200, 1000)
    recover_whole_log: bool = knob_field(True, False, plain=True)
    producers: int = knob_field(1, 2, 3, least=1)
    consumers: int = knob_field(0, 0, 1, plain=0, weight=1)
    topics: int = knob_field(1, 2, plain=1)
    queues_per_topic: int = knob_field(1, 2, plain=1)
    messages: features.MessagePlan = features.MessagePlan()
    pauses: features.PausePlan = features.PausePlan()
    flush: features.FlushPlan = features.FlushPlan()
    sync_ms_max: int = knob_field(1, 10, least=1)
    disk: str = knob_field(
        *("strict-posix",) * 2, "ext4-ordered", "ext4-data", "xfs", "btrfs", "process-kill", "nothing-lost"
    )
    """A name in `DISK_MODELS`."""
    index: features.IndexPlan = features.IndexPlan()
    memory: features.MemoryPlan = features.MemoryPlan()
    delay: features.DelayPlan = features.DelayPlan()
    transactions: features.TransactionPlan = features.TransactionPlan()
    light_queues: features.LightQueuePlan = features.LightQueuePlan()
    consuming: features.ConsumingPlan = features.ConsumingPlan()
    retention: features.RetentionPlan = features.RetentionPlan()
    capacity_bytes: int = knob_field(0, plain=0, weight=2, in_sessions=False)
    """The capacity during traffic. 0: unlimited."""
    policy: str = knob_field(*("random-walk",) * 6, *("pct",) * 3, *("pos",) * 3, "round-robin")
    """A name in `scenario.POLICIES`."""
    heals: bool = knob_field(True, False, plain=False, weight=5)
    """Whether the run checks liveness: all faults end, and the store must work again."""
    starved_steps_max: int = knob_field(0)
    """The maximum number of steps for which one runnable task is starved while other tasks run."""
    attribute_points: bool = knob_field(False, False, False, True, plain=False, in_sessions=False)
    """Tasks also switch at accesses to plain attributes of the store, as threads can."""
    forced_branch_chance: float = knob_field(0.0, plain=0.0, in_sessions=False)
    """The chance that a rare branch in `FORCIBLE` is taken although its condition is false."""
    batch_records: int = knob_field(0, 0, 0, 2, 8, plain=0)
    """The largest number of records that the store reads at once, through a `SimulatedCore`. 0: a store without core.

    Chosen after the lives, like the settings, so that older seeds keep the rest of their plans.
    """
    crash_aim: str = knob_field("operation", "operation", "sync", "mark", plain="operation", in_sessions=False)
    """What `Life.operation` counts: operations, syncs, changes of names, of names of files that operators
    change, or marks. See `runs.crash_aims`."""
    settings: features.SettingsPlan = features.SettingsPlan()
    starts: features.StartPlan = features.StartPlan()
    directories: features.DirectoryPlan = features.DirectoryPlan()
    errors_stop: bool = knob_field(True)
    """In a liveness run, disk errors stop when a life's users have finished, so the store must recover then."""
    faults: FaultPlan = FaultPlan()
    """The creation of files fails only during traffic."""
    rot: RotPlan = RotPlan()
    disturbances: DisturbancePlan = DisturbancePlan()
    cluster: features.ClusterPlan = features.ClusterPlan()
    network: NetworkPlan = NetworkPlan()
    broker: features.BrokerPlan = features.BrokerPlan()
    retry: features.RetryPlan = features.RetryPlan()
    access: features.AccessPlan = features.AccessPlan()
    broker_settings: features.BrokerSettingsPlan = features.BrokerSettingsPlan()
    log_directories: features.LogDirectoryPlan = features.LogDirectoryPlan()
    policy_parameter: int
    """Mean number of steps of the random walk between switches, depth of PCT, quantum of round robin; 0 for POS."""
    lives: tuple[Life, ...]
    left_out: tuple[str, ...] = ()
    """Names of messages that producers do not put."""

    def __post_init__(self) -> None:
        assert self.disk in DISK_MODELS, self.disk
        assert min(self.producers, self.topics, self.queues_per_topic) > 0, "no producer, topic or queue"
        assert self.is_alone or self.directories == features.DirectoryPlan(), "only a single store has these"

    @property
    def is_alone(self) -> bool:
        """Whether the run has a single store. Exploration recovers each state of such a run directly."""
        return not self.cluster.slaves and not self.broker.serves

    @property
    def may_use_transient_pool(self) -> bool:
        """Whether the store puts to a write buffer in some start."""
        return self.memory.transient_pool or self.starts.switched == "transient_store_pool_enable"

    def value(self, path: str) -> Any:
        feature, _, name = path.rpartition(".")
        return getattr(getattr(self, feature) if feature else self, name)

    def replace(self, **changes: Any) -> "Plan":
        """Return the plan with other values, those of a feature in a mapping."""
        whole = {
            name: replace(getattr(self, name), **change) if isinstance(change, Mapping) else change
            for name, change in changes.items()
        }
        return replace(self, **whole)

    def with_values(self, values: Mapping[str, Any]) -> "Plan":
        changes: dict[str, Any] = {}
        for path, value in values.items():
            feature, _, name = path.rpartition(".")
            (changes.setdefault(feature, {}) if feature else changes)[name] = value
        return self.replace(**changes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> "Plan":
        """Parse a plan from JSON values. ValueError names a field that is missing, unknown or of the wrong type.

        A knob may be missing, because a stored plan may be older.
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
KNOBS: dict[str, Knob] = {
    path: found
    for name, own in knobs_of(Plan)
    if name != "left_out"
    for path, found in (
        [(f"{name}.{one}", each) for one, each in knobs_of(FEATURES[name])] if name in FEATURES else [(name, own)]
    )
}
"""Knobs by path, in the plan's order: `topics` is a core knob, `delay.chance` belongs to a feature."""
