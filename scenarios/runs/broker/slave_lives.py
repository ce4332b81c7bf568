"""Slave lives: absences, deaths and new disks of slaves, in addition to the ends of lives in a plan."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ....sim.choices import Stream
from ....store.formats.side_json import Table, encode_side_json
from ...claims.disk_models import DISK_MODELS
from ...claims.machine import CONFIG
from ...claims.plan import Life, LifeEnding, Plan
from .broker_node import BrokerNode

_DEATH_MS_MAX = 8_000
"""A slave copies its master's tables 3 s after its start."""
_COUNTERS = (1, 2, 3, 50, 100, 100)
"""Numbers of changes of another cluster's tables. The tables of a run have about as few changes as the first ones."""


class SlaveLives:
    """The draws for the slaves of one run. A slave that is the victim of a life is not affected in that life."""

    def __init__(self, plan: Plan, streams: Callable[[str], Stream], hits: Counter[str]) -> None:
        self._broker = plan.broker
        self._crashes = DISK_MODELS[plan.disk].crashes
        self._streams = streams
        self._hits = hits
        self._deaths_ns: dict[str, int] = {}
        """Slave -> virtual time of its death in this life."""

    def begin_life(self, nodes: Sequence[BrokerNode], victim: BrokerNode, now_ns: int) -> set[str]:
        """Draw the deaths of a life. Return the names of the slaves that stay off in it."""
        self._deaths_ns.clear()
        absent: set[str] = set()
        for node in nodes:
            if not node.is_slave or node is victim:
                continue
            stream = self._streams(f"{node.name}/lives")
            if not node.is_alive and stream.chance(self._broker.slave_absence_chance, "stays off"):
                self._hits["slave absent"] += 1
                absent.add(node.name)
            elif stream.chance(self._broker.slave_death_chance, "dies"):
                after_ms = stream.randint(1, _DEATH_MS_MAX, "ms until its death")
                self._deaths_ns[node.name] = now_ns + after_ms * 1_000_000
        return absent

    def due_deaths(self, nodes: Sequence[BrokerNode], now_ns: int) -> Iterator[tuple[BrokerNode, Life]]:
        """Yield each slave that must die now, and its end."""
        for node in nodes if self._deaths_ns else ():
            if node.is_alive and self._deaths_ns.get(node.name, now_ns) < now_ns:
                del self._deaths_ns[node.name]
                self._hits["slave died"] += 1
                profile = self._streams(f"{node.name}/lives").choice(self._crashes, "profile")
                yield node, Life(LifeEnding.CRASH_AT_REST, profile, -1, "after", 0)

    def prepare_start(self, node: BrokerNode) -> None:
        """Give a slave that starts a new disk by chance, and always at its first start."""
        if not node.is_slave:
            return
        stream, plan = self._streams(f"{node.name}/lives"), self._broker
        if node.has_been_on:
            if not stream.chance(plan.slave_disk_loss_chance, "loses its disk"):
                return
            self._hits["slave disk lost"] += 1
        tables: Mapping[str, bytes] = {}
        if stream.chance(plan.slave_disk_reuse_chance, "reuses a disk"):
            self._hits["slave disk reused"] += 1
            tables = _tables_of_other_cluster(stream.choice(_COUNTERS, "counter of the tables"))
        node.replace_disk(tables)


def _tables_of_other_cluster(counter: int) -> dict[str, bytes]:
    """Return the files of a slave's tables by path. counter: the number of changes of the topics and of the groups."""
    version, name = {"counter": counter, "timestamp": 1}, "former"
    files: dict[str, Mapping[str, Table]] = {
        "topics": {"dataVersion": version, "topicConfigTable": {name: {"topicName": name}}},
        "subscriptionGroup": {"dataVersion": version, "subscriptionGroupTable": {name: {"groupName": name}}},
        "consumerOffset": {"offsetTable": {f"{name}@{name}": {0: counter}}},
        "delayOffset": {"offsetTable": {1: counter}},
    }
    return {f"{CONFIG}/{file}.json": encode_side_json(members) for file, members in files.items()}
