"""A test of a key-value store's promises: several clients, crashes, recovery, and a judge.

python check_kv_log.py                          the store as it is
python check_kv_log.py NoDirectorySync          one of kv_bugs; a failure is written to finding.json
python check_kv_log.py NoDirectorySync replay   runs finding.json again
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial

import kv_bugs
import kv_log
from kv_log import KvLog

from tornlog.faults.simulation.finding import Finding
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.shrink import shrink
from tornlog.faults.simulation.simulation import Scenario, Simulation, SimWorld
from tornlog.faults.simulation.trials import Coverage, NeverInjected, find, replay

CLIENTS = ("ann", "bob")
PUTS_EACH, COMPACTIONS = 6, 1
OPERATIONS = 120  # of files; about the number in a life
DISKS = ("process-kill", "ext4-ordered", "xfs", "strict-posix", "torn-sectors")


class Clients:
    """The allowed values of each key, by the answers of clients. Each key belongs to one client."""

    def __init__(self) -> None:
        self._allowed: dict[bytes, list[bytes | None]] = {}

    def put(self, store: KvLog, key: bytes, value: bytes | None) -> None:
        """Put, and record it: until the put returns, both the old and the new value are allowed."""
        self._allowed.setdefault(key, [None]).append(value)
        store.put(key, value)
        self._allowed[key] = [value]

    def judge(self, store: KvLog) -> None:
        """Judge the values after a start. They are the only allowed ones from here on."""
        found = store.items()
        for key in sorted(found.keys() - self._allowed.keys()):
            raise PromiseBroken("no record is invented", f"{key!r} was never put")
        for key, allowed in self._allowed.items():
            value = found.get(key)
            if value not in allowed:
                expected = " or ".join(map(repr, allowed))
                raise PromiseBroken("every put is present", f"{key!r}: expected {expected}, found {value!r}")
            self._allowed[key] = [value]


def scenario(store_class: type[KvLog], run: Simulation) -> None:
    """Let clients use a store in several lives that end in crashes, and judge every start."""
    clients = Clients()
    if run.choices.stream("attributes").chance(0.25, "attribute points"):
        run.switch_at_attributes(kv_log, kv_bugs)

    def client(store: KvLog, life: str, name: str) -> None:
        for number, draw in run.steps(f"{life} {name}", PUTS_EACH):
            key = f"{name}-{draw.randbelow(2, 'key')}".encode()
            clients.put(store, key, None if draw.chance(0.2, "deleted") else f"{life} {number}".encode())

    def compactor(store: KvLog, life: str) -> None:
        for _ in run.steps(f"{life} compactor", COMPACTIONS):
            store.compact()

    def use(life: str, world: SimWorld) -> None:
        store = store_class(world, "/kv")
        store.open()
        clients.judge(store)
        bodies: dict[str, Callable[[], None]] = {"compactor": partial(compactor, store, life)}
        for name in CLIENTS:
            bodies[name] = partial(client, store, life, name)
        for task in [world.tasks.spawn(name, body) for name, body in bodies.items()]:
            task.join(None)
        store.close()

    for number, _ in run.steps("lives", 2):
        run.live(f"life-{number}", partial(use, f"life-{number}"), crash_within=OPERATIONS, profiles=DISKS)
    run.live("end", partial(use, "end"))
    run.live("after", lambda world: clients.judge(opened(store_class, world)))


def opened(store_class: type[KvLog], world: SimWorld) -> KvLog:
    """Return a store on the disk of the last machine."""
    store = store_class(world, "/kv")
    store.open()
    return store


def main(bug: str = "", command: str = "find") -> int:
    """Find, shrink and store a failure, or replay it; return 1 for a failure."""
    check: Scenario = partial(scenario, getattr(kv_bugs, bug) if bug else KvLog)
    if command == "replay":
        with open("finding.json") as file:
            finding = Finding.from_json(file.read())
        print(finding.error if replay(check, finding.record).is_same(finding) else "another run")
        return 1
    coverage = Coverage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeverInjected)  # the coverage shows it
        found = find(check, range(1_000), coverage.add)
    if found is None:
        print(f"nothing found: {coverage}")
        return 0
    smallest = shrink(check, found)
    with open("finding.json", "w") as file:
        file.write(smallest.to_json())
    print(smallest)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
