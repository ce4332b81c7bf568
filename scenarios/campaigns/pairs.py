"""Pairs: count the runs in which two features or faults occurred together.

A feature occurs if the plan enables it, a fault if it is injected. A bug that needs two features or faults can be found
only in runs with both. Most failures depend on one or two factors (Kuhn et al., Software Fault Interactions and
Implications for Software Testing, IEEE TSE 2004).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from itertools import combinations
from typing import NamedTuple

from ...faults.kinds import FAULTS, FaultKind
from ..claims.disk_models import DISK_MODELS
from ..claims.plan import LifeEnding, Plan

Pair = tuple[str, str]
"""Names of two features or faults, in alphabetical order."""


class Feature(NamedTuple):
    """An optional part of a plan."""

    meaning: str
    is_on: Callable[[Plan], object]


def _uses_store_directly(plan: Plan) -> bool:
    """Return whether users call the store directly. Clients of a broker wait for each put, and always commit."""
    return not plan.broker.serves


FEATURES: dict[str, Feature] = {
    "batches": Feature("several messages are put in one call", lambda plan: plan.messages.batch_chance),
    "unawaited puts": Feature(
        "puts wait for no flush", lambda plan: _uses_store_directly(plan) and plan.messages.no_wait_chance
    ),
    "consumers": Feature("consumers read queues during traffic", lambda plan: plan.consumers),
    "key index": Feature("messages are found by their keys", lambda plan: plan.index.slots),
    "key look-ups": Feature(
        "users look messages up during traffic", lambda plan: _uses_store_directly(plan) and plan.index.seekers
    ),
    "transient pool": Feature(
        "puts go to a buffer of the process first", lambda plan: plan.memory.transient_pool and not plan.sync_flush
    ),
    "warm files": Feature("new segments are pre-written before use", lambda plan: plan.memory.warm_files),
    "delayed messages": Feature("messages are delivered later", lambda plan: plan.delay.chance),
    "transactions": Feature("half messages are decided later", lambda plan: plan.transactions.chance),
    "light queues": Feature("messages are also in light queues", lambda plan: plan.light_queues.chance),
    "filters": Feature(
        "consumers subscribe to some tags only", lambda plan: plan.consumers and plan.consuming.filtered
    ),
    "group progress": Feature(
        "consumers commit their offsets",
        lambda plan: plan.consuming.commits_offsets if _uses_store_directly(plan) else plan.consumers,
    ),
    "retention": Feature("old segments are deleted", lambda plan: plan.retention.deletes_segments),
    "removal of queues": Feature(
        "queues without messages are removed",
        lambda plan: plan.retention.deletes_segments and plan.retention.deletes_queues,
    ),
    "stop under load": Feature(
        "the store is stopped while users are active",
        lambda plan: any(life.ending is LifeEnding.STOP_IN_TRAFFIC for life in plan.lives),
    ),
    "slaves": Feature("other machines follow the master", lambda plan: plan.cluster.slaves),
    "sync master": Feature("puts wait for a slave", lambda plan: plan.cluster.slaves and plan.cluster.sync_master),
    "tailing consumers": Feature(
        "groups of their own follow queues from their ends", lambda plan: plan.broker.tailing_consumers
    ),
    "requests in flight": Feature(
        "clients send further requests before the answers to earlier ones", lambda plan: plan.broker.sends_in_flight > 1
    ),
    "retries": Feature("consumers send messages back", lambda plan: plan.consumers and plan.broker.send_back_chance),
    "operators": Feature("operators change topics and groups", lambda plan: plan.broker.operators),
    "broker": Feature("users reach the store over a network", lambda plan: plan.broker.serves),
}
SINGLE: Mapping[str, str] = {
    "removal of queues": "queue and consumer offsets restart at 0, which only its own scenario models",
    "damaged record": "its run is a single life with plain puts; the oracle does not model a crash after the damage",
    "full disk at a start": "only in its own scenario does space become free once the store runs",
    "missing segment": "its run has plain puts; the copies and decisions lost with a segment are not modelled",
    "out of memory": "few promises apply after a service has ended; its own scenario checks those",
    "skipped numbers": "gaps in queue offsets from another version look like those from disk faults",
}
"""Features and faults that no pair includes, with the reason."""
NAMES: tuple[str, ...] = tuple(sorted({*FEATURES, *FAULTS} - SINGLE.keys()))

_ALONE, _CLUSTER, _BROKER = "a store alone", "a cluster", "a broker"
_RUNS = (_ALONE, _CLUSTER, _BROKER)
_Place = tuple[str, str]


class Limit(NamedTuple):
    """The kinds of run and disk models in which some features or faults can occur."""

    names: Collection[str]
    runs: Collection[str]
    disks: Collection[str]
    why: str


_SOUND = tuple(name for name, model in DISK_MODELS.items() if model.is_sound)
_ANY_DISK = tuple(DISK_MODELS)
_OF_NETWORKS = tuple(kind.value for kind in FaultKind if kind.row.group == "network")
LIMITS: tuple[Limit, ...] = (
    Limit(("slaves", "sync master"), (_CLUSTER, _BROKER), _SOUND, "a single store has no slaves"),
    Limit(
        ("broker", "client death", "tailing consumers", "requests in flight", "retries", "operators"),
        (_BROKER,),
        _SOUND,
        "a broker and its clients are in runs of brokers only",
    ),
    Limit(
        ("unawaited puts", "key look-ups"),
        (_ALONE, _CLUSTER),
        _ANY_DISK,
        "the count is of direct puts to a store; only few scenarios of a broker look messages up",
    ),
    Limit(
        ("stop under load",),
        (_ALONE, _BROKER),
        _ANY_DISK,
        "in clusters only one scenario stops machines under load, without faults of disks",
    ),
    Limit(_OF_NETWORKS, (_CLUSTER, _BROKER), _SOUND, "a single store has no network"),
    Limit(("failed space query",), (_ALONE,), _ANY_DISK, "only scenarios of a single, unlimited disk inject it"),
    Limit(("flipped bit",), (_CLUSTER,), _SOUND, "the bit is flipped in a record on its way to a slave"),
    Limit(
        ("lying sync", "synced data lost", "late sync error"),
        (_ALONE,),
        ("lying-disk",),
        "other disks keep synced data",
    ),
    Limit(
        (*("lost write", "misdirected write", "garbage sector", "latent sector error"), *("bit rot", "swapped pages")),
        (_ALONE,),
        ("dying-disk",),
        "other disks return the written data",
    ),
    Limit(
        (
            *("stale blocks", "wrong file size", "stray file", "damaged checkpoint", "lost sector"),
            *("segment after a gap", "duplicate segment"),
            *("flipped number", "zeroed sector", "second start"),
        ),
        (_ALONE,),
        _ANY_DISK,
        "the fault concerns one directory or process, in runs of a single store",
    ),
)
"""Kinds of run and disks in which some features and faults can occur. All others can occur everywhere.

Features or faults without a common kind of run and disk never form a pair.
"""


class NeverTogether(NamedTuple):
    """Features or faults that exclude each other although they can occur in the same kind of run and disk."""

    these: Collection[str]
    those: Collection[str]
    why: str


APART: tuple[NeverTogether, ...] = (
    NeverTogether(("flipped number",), ("transactions",), "a decision names its half message by the number"),
    NeverTogether(
        ("flipped number",), ("light queues",), "a record then has several numbers, and no model says which is wrong"
    ),
    NeverTogether(
        ("lost sector",),
        ("retention", "removal undone"),
        "the correct queues of a damaged log without its front are not modelled",
    ),
    NeverTogether(
        ("operators",),
        ("retention",),
        "operators remove queues without messages, so offsets restart at 0, which broker models do not support",
    ),
    NeverTogether(
        ("lying sync", "synced data lost"),
        ("power cut after a stop",),
        "a stop promises durability, which a lying disk breaks, so no power cut follows it",
    ),
)


@cache
def _possible_places(name: str) -> frozenset[_Place]:
    """Return the kinds of run and disk in which a feature or fault can occur. Runs of several machines have faultless
    disks."""
    places = {(run, disk) for run in _RUNS for disk in _ANY_DISK if run == _ALONE or disk in _SOUND}
    for limit in LIMITS:
        if name in limit.names:
            places &= {(run, disk) for run in limit.runs for disk in limit.disks}
    return frozenset(places)


def _can_occur_together(first: str, second: str) -> bool:
    if _possible_places(first).isdisjoint(_possible_places(second)):
        return False
    return not any(
        (first in apart.these and second in apart.those) or (second in apart.these and first in apart.those)
        for apart in APART
    )


@cache
def possible_pairs() -> frozenset[Pair]:
    return frozenset(pair for pair in combinations(NAMES, 2) if _can_occur_together(*pair))


def features_of(plan: Plan) -> tuple[str, ...]:
    return tuple(name for name, feature in FEATURES.items() if feature.is_on(plan))


def pairs_in(features: Iterable[str], injected: Mapping[str, int]) -> Iterable[Pair]:
    took_part = {*features, *(kind for kind, times in injected.items() if times and kind in FAULTS)} - SINGLE.keys()
    return combinations(sorted(took_part), 2)


class OccurredPairs(NamedTuple):
    """The pairs that occurred in at least one run."""

    met: int
    never: list[Pair]

    @property
    def possible_count(self) -> int:
        return self.met + len(self.never)

    def missing_partners(self) -> dict[str, list[str]]:
        """Return the pairs that never occurred, grouped under the name with more missing pairs."""
        lacking = Counter(name for pair in self.never for name in pair)
        partners: dict[str, list[str]] = {}
        for first, second in self.never:
            worse, other = (first, second) if lacking[first] >= lacking[second] else (second, first)
            partners.setdefault(worse, []).append(other)
        return dict(sorted(partners.items(), key=lambda item: (-len(item[1]), item[0])))


def count_occurred_pairs(pairs: Mapping[Pair, int]) -> OccurredPairs:
    """pairs: the number of runs with each pair."""
    can = possible_pairs()
    never = sorted(pair for pair in can if not pairs.get(pair))
    return OccurredPairs(len(can) - len(never), never)
