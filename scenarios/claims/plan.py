"""What a seed decides before anything runs: the sizes, the traffic, the faults and how each life of the store ends.

A scenario narrows the ranges to its claim; every seed draws one plan from them. A feature that a plan leaves out
leaves room for the others (swarm testing, Groce et al., ISSTA 2012).
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from ...faults.disk.crash_trigger import CrashPoint
from ...faults.disk.image import RotPlan
from ...faults.plan import FaultPlan, NetworkPlan
from ...sim.choices import Stream
from ...sim.disturbances import DisturbancePlan
from .broker_plan import BrokerPlan
from .cluster_plan import ClusterPlan
from .disk_models import DISK_MODELS

STOPS = (
    "stop",
    "stop and damage",
    "stop and damaged progress",
    "stop and damaged record",
    "stop and flipped number",
    "stop and odd file",
    "stop and returned file",
    "stop and strays",
    "stop in traffic",
)
MOMENTS = ("before", "during", "after")


_QUIET, _NO_ROT, _ALONE, _FAIR = DisturbancePlan(), RotPlan(), ClusterPlan(), NetworkPlan()
_UNSERVED = BrokerPlan()


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a store, from power-on to its end."""

    ending: str
    """`crash in load`, `crash in traffic`, `crash in persist`: from when progress is first persisted, `crash at rest`,
    `crash on old blocks`: at rest, behind whose log an older segment's bytes appear, `stop`, `stop and damage`: then a
    sector of the log is lost, `stop and damaged progress`: then one of what consumers committed is, `stop and
    damaged record`: then a bit of a record rots that the next start takes for durable, and the queues may be lost,
    `stop and flipped number`: then a bit of a record's queueOffset does, `stop and odd
    file`: then somebody tries to start beside a segment of a wrong size, `stop and returned file`: then the first
    segment that retention removed is back, `stop and strays`: then foreign names are among the queues, a queue's file
    is cut or the checkpoint is damaged, or `stop in traffic`: while users are at it."""
    profile: str
    """What the crash leaves: a name in `PROFILES`. Unused by stops."""
    operation: int
    """Number of the disk operation the crash hits, if it comes to that; -1 without one."""
    moment: str
    messages_each: int
    """Messages per producer in this life."""
    crash_point: str = ""
    """The operation's name, as `faults.aim` has them, in place of its number."""
    node: int = 0
    """Which machine of a cluster ends: 0 is the master, slaves count from 1. The others live on."""

    @property
    def is_stop(self) -> bool:
        """Return whether the store is told to stop."""
        return self.ending in STOPS


@dataclass(frozen=True, slots=True)
class Plan:
    """One drawn run. Sizes are bytes, times ms of virtual time; chances are per message or per sync.

    What comes new has a default that leaves stored runs as they were.
    """

    sync_flush: bool
    commit_log_bytes: int
    consume_queue_bytes: int
    recover_whole_log: bool
    producers: int
    consumers: int
    topics: int
    queues_per_topic: int
    body_bytes_max: int
    property_bytes_max: int
    equal_sizes: bool
    batch_chance: float
    illegal_chance: float
    no_wait_chance: float
    pause_chance: float
    pause_ms_max: int
    filtered: bool
    sync_flush_timeout_ms: int
    thorough_interval_ms: int
    sync_ms_max: int
    disk: str
    """What the store runs on: a name in `DISK_MODELS`."""
    faults: FaultPlan
    """What goes wrong on the disk; a file cannot fail to be made but while there is traffic."""
    second_start: bool
    """Whether somebody starts a second store on the directory while there is traffic."""
    index_slots: int
    """Hash slots of an index file; 0 leaves the index off."""
    index_entries: int
    keys_chance: float
    """Of a message, to have keys that it shares with others, a UNIQ_KEY among them."""
    seekers: int
    """Users who look messages up by their keys."""
    transient_pool: bool
    """Whether puts go to a buffer of the process first; counts under ASYNC_FLUSH only."""
    warm_files: bool
    delay_chance: float
    """Of a message, to be delivered later."""
    transaction_chance: float
    """Of a message, to be a half message that is decided later or never."""
    light_chance: float
    """Of a message, to be in light queues beside its own."""
    offsets: bool
    """Whether consumers commit how far they came."""
    retention: bool
    """Whether somebody has old segments deleted while there is traffic."""
    capacity_bytes: int
    """Of the disk while there is traffic; 0 is more than anyone needs."""
    policy: str
    """A name in scenarios.scenario.POLICIES."""
    policy_parameter: int
    """Mean stretch of the random walk, depth of PCT, quantum of round robin; 0 for POS."""
    lives: tuple[Life, ...]
    left_out: tuple[str, ...] = ()
    """Messages that their producers pass over, by name."""
    heals: bool = True
    """Whether the run is for liveness: the world heals in the end, and the store must work again."""
    disturbances: DisturbancePlan = _QUIET
    """What happens to tasks and clocks while there is traffic."""
    rot: RotPlan = _NO_ROT
    """What becomes of files while the store is off."""
    starved_steps_max: int = 0
    """How long one task may have to stand back behind all others; 0: none has to."""
    cluster: ClusterPlan = _ALONE
    """The machines beside the store's own."""
    network: NetworkPlan = _FAIR
    """What happens between machines while there is traffic."""
    broker: BrokerPlan = _UNSERVED
    """How users reach the store."""
    skipped_numbers_max: int = 0
    """The most numbers that a queue skips when the store is started again, as where 4.9.8 restarted it; 0: none."""
    queues_removed: bool = False
    """Whether somebody has queues removed that lead nowhere, too, while others put and pull; counts with retention."""
    out_of_memory_chance: float = 0.0
    """Of a life, that one service ends in it of an error that it does not foresee."""
    errors_stop: bool = False
    """Whether, in a run for liveness, the disk's errors stop when the users of a life have done their work: the store
    has to recover in that very life."""

    @property
    def is_alone(self) -> bool:
        """Return whether it is of one store and nothing else: only such runs are drawn, and explored."""
        return not self.cluster.slaves and not self.broker.serves

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Plan":
        """Return the plan that `to_json` gave; ValueError naming a field that is missing, unknown or ill-typed.

        A field with a default may be missing: it is younger than what was stored.
        """
        _check_fields(cls, values, "plan")
        for number, life in enumerate(values["lives"]):
            _check_fields(Life, life, f"plan.lives.{number}")
            if life.get("crash_point"):
                CrashPoint.parse(life["crash_point"])
        _check_fields(FaultPlan, values["faults"], "plan.faults")
        disturbances = values.get("disturbances", {})
        _check_fields(DisturbancePlan, disturbances, "plan.disturbances")
        rotting = values.get("rot", {})
        _check_fields(RotPlan, rotting, "plan.rot")
        cluster = values.get("cluster", {})
        _check_fields(ClusterPlan, cluster, "plan.cluster")
        network = values.get("network", {})
        _check_fields(NetworkPlan, network, "plan.network")
        broker = values.get("broker", {})
        _check_fields(BrokerPlan, broker, "plan.broker")
        left_out = values.get("left_out", [])
        for number, name in enumerate(left_out):
            if not isinstance(name, str):
                raise ValueError(f"plan.left_out.{number}: expected str, found {type(name).__name__}")
        parts = {
            "faults": FaultPlan(**values["faults"]),
            "disturbances": DisturbancePlan(**disturbances),
            "rot": RotPlan(**rotting),
            "cluster": ClusterPlan(**cluster),
            "network": NetworkPlan(**network),
            "broker": BrokerPlan(**broker),
            "lives": tuple(Life(**life) for life in values["lives"]),
            "left_out": tuple(left_out),
        }
        return cls(**{**values, **parts})


_JSON_KINDS: dict[Any, Any] = {
    FaultPlan: dict,
    DisturbancePlan: dict,
    RotPlan: dict,
    ClusterPlan: dict,
    NetworkPlan: dict,
    BrokerPlan: dict,
    tuple[Life, ...]: list,
    tuple[str, ...]: list,
}


def _check_fields(kind: type, values: object, place: str) -> None:
    if not isinstance(values, dict):
        raise ValueError(f"{place}: expected an object, found {type(values).__name__}")
    expected = {field.name: field.type for field in fields(kind)}
    optional = {field.name for field in fields(kind) if field.default is not MISSING}
    for name in sorted((expected.keys() ^ values.keys()) - (optional - values.keys())):
        raise ValueError(f"{place}.{name}: {'missing' if name in expected else 'unknown'}")
    for name in sorted(expected.keys() & values.keys()):
        found = type(values[name])
        wanted = _JSON_KINDS.get(expected[name], expected[name])
        if found is not wanted and not (wanted is float and found is int):
            raise ValueError(f"{place}.{name}: expected {wanted.__name__}, found {found.__name__}")


@dataclass(frozen=True, slots=True)
class Ranges:
    """From what each part of a plan is drawn; one option fixes it."""

    sync_flush: Sequence[bool] = (True, False)
    endings: Sequence[str] = (
        "crash in traffic",
        "crash in traffic",
        "crash at rest",
        "crash in load",
        "stop",
    )
    lives: Sequence[int] = (1, 1, 2, 3)
    commit_log_bytes: Sequence[int] = (2048, 4096, 8192, 16384)
    consume_queue_bytes: Sequence[int] = (100, 200, 1000)
    recover_whole_log: Sequence[bool] = (True, False)
    producers: Sequence[int] = (1, 2, 3)
    consumers: Sequence[int] = (0, 0, 1)
    messages_each: Sequence[int] = (3, 8, 16)
    topics: Sequence[int] = (1, 2)
    queues_per_topic: Sequence[int] = (1, 2)
    body_bytes_max: Sequence[int] = (0, 40, 300, 900)
    property_bytes_max: Sequence[int] = (0, 0, 700)
    equal_sizes: Sequence[bool] = (False, False, True)
    batch_chance: Sequence[float] = (0.0, 0.0, 0.2)
    illegal_chance: Sequence[float] = (0.0, 0.0, 0.1)
    no_wait_chance: Sequence[float] = (0.0, 0.0, 0.2)
    pause_chance: Sequence[float] = (0.0, 0.2, 0.5)
    pause_ms_max: Sequence[int] = (1, 30, 3000)
    filtered: Sequence[bool] = (False,)
    sync_flush_timeout_ms: Sequence[int] = (5000,)
    thorough_interval_ms: Sequence[int] = (2000, 10_000)
    sync_ms_max: Sequence[int] = (1, 10)
    disk: Sequence[str] = (
        *("strict-posix",) * 2,
        "ext4-ordered",
        "ext4-data",
        "xfs",
        "btrfs",
        "process-kill",
        "nothing-lost",
    )
    faults: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of FaultPlan with the values to draw from, beside what the disk has of its own."""
    disturbances: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of DisturbancePlan with the values to draw from."""
    rot: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of RotPlan with the values to draw from, beside what the disk has of its own."""
    cluster: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of ClusterPlan with the values to draw from."""
    network: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of NetworkPlan with the values to draw from."""
    broker: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Fields of BrokerPlan with the values to draw from."""
    starved_steps_max: Sequence[int] = (0,)
    second_start: Sequence[bool] = (False,)
    index_slots: Sequence[int] = (0, 5, 40)
    index_entries: Sequence[int] = (5, 12, 200)
    keys_chance: Sequence[float] = (0.0,)
    seekers: Sequence[int] = (0,)
    transient_pool: Sequence[bool] = (False,)
    warm_files: Sequence[bool] = (False, False, True)
    delay_chance: Sequence[float] = (0.0,)
    transaction_chance: Sequence[float] = (0.0,)
    light_chance: Sequence[float] = (0.0,)
    offsets: Sequence[bool] = (False,)
    retention: Sequence[bool] = (False,)
    queues_removed: Sequence[bool] = (False,)
    capacity_bytes: Sequence[int] = (0,)
    skipped_numbers_max: Sequence[int] = (0,)
    heals: Sequence[bool] = (True, False)
    errors_stop: Sequence[bool] = (True,)
    out_of_memory_chance: Sequence[float] = (0.0,)
    policy: Sequence[str] = (
        *("random-walk",) * 6,
        *("pct",) * 3,
        *("pos",) * 3,
        "round-robin",
    )

    @property
    def is_alone(self) -> bool:
        """Return whether every plan drawn is of one store and nothing else."""
        return not any(self.cluster.get("slaves", (0,))) and not any(self.broker.get("serves", (False,)))

    def with_faults(self, **faults: Sequence[float | str]) -> "Ranges":
        """Return ranges that draw these faults, too; one that was there is drawn from what is given now."""
        return replace(self, faults={**self.faults, **faults})


def draw_plan(stream: Stream, ranges: Ranges) -> Plan:
    """Draw one plan; the last life always ends in what the ranges' endings say, the store is judged after each."""
    drawn: dict[str, Any] = {
        field.name: stream.pick(getattr(ranges, field.name), field.name)
        for field in fields(Plan)
        if field.name not in DRAWN_APART
    }
    disk_model = DISK_MODELS[drawn["disk"]]
    drawn["recover_whole_log"] |= disk_model.needs_whole_log
    if disk_model.capacity_bytes:
        drawn["capacity_bytes"] = stream.pick(disk_model.capacity_bytes, "capacity_bytes of the disk")
    drawn["faults"] = FaultPlan(**_draw_named(stream, {**disk_model.faults, **ranges.faults}))
    drawn["rot"] = RotPlan(**_draw_named(stream, {**disk_model.rot, **ranges.rot}))
    drawn["disturbances"] = DisturbancePlan(**_draw_named(stream, ranges.disturbances))
    drawn["cluster"] = ClusterPlan(**_draw_named(stream, ranges.cluster))
    drawn["network"] = NetworkPlan(**_draw_named(stream, ranges.network))
    drawn["broker"] = BrokerPlan(**_draw_named(stream, ranges.broker))
    policy_parameter = stream.pick(*POLICY_PARAMETERS[drawn["policy"]])
    lives = tuple(
        _draw_life(stream, ranges, drawn, disk_model.crashes, first=number == 0)
        for number in range(stream.pick(ranges.lives, "lives"))
    )
    return Plan(policy_parameter=policy_parameter, lives=lives, **drawn)


POLICY_PARAMETERS: dict[str, tuple[Sequence[int], str]] = {
    "random-walk": ((1, 4, 16, 64), "mean stretch"),
    "pct": ((2, 3, 5), "depth"),
    "pos": ((0,), "no parameter"),
    "round-robin": ((1, 2, 3, 5, 8, 13), "quantum"),
}
"""From what each policy's parameter is drawn, and what it is."""

DRAWN_APART = (
    "policy_parameter",
    "lives",
    "faults",
    "rot",
    "disturbances",
    "cluster",
    "network",
    "broker",
    "left_out",
)
"""Fields of a plan that are no pick from a range of their name."""
_OPERATIONS_IN_LOAD = 24
_OPERATIONS_IN_PERSIST = 12


def _draw_named(stream: Stream, options: Mapping[str, Sequence[float | str]]) -> dict[str, Any]:
    """Draw one of each name's options, in the order of the names."""
    return {name: stream.pick(options[name], name) for name in sorted(options)}


def _draw_life(
    stream: Stream, ranges: Ranges, drawn: dict[str, Any], crashes: Sequence[str], *, first: bool
) -> Life:
    endings = [ending for ending in ranges.endings if not first or ending != "crash in load"]
    ending = stream.pick(endings or ["crash in traffic"], "ending")
    messages_each = stream.pick(ranges.messages_each, "messages each")
    operation = -1
    if ending == "crash in load":
        operation = stream.below(_OPERATIONS_IN_LOAD, "crash operation")
    elif ending == "crash in traffic":
        per_message = 4 if drawn["sync_flush"] else 2
        if drawn["delay_chance"]:
            per_message *= 2  # a delayed one is put twice
        if drawn["transaction_chance"]:
            per_message *= 4  # a committed one too, and ends with an op; open ones are put back
        operation = stream.below(30 + messages_each * drawn["producers"] * per_message, "crash operation")
    elif ending == "crash in persist":
        operation = stream.below(_OPERATIONS_IN_PERSIST, "crash operation")
    return Life(
        ending,
        stream.pick(crashes, "profile"),
        operation,
        stream.pick(MOMENTS, "moment"),
        messages_each,
        node=stream.below(slaves + 1, "node") if (slaves := drawn["cluster"].slaves) else 0,
    )
