import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread

import pytest

from tests.sim.rigs import make
from tornlog.sim.attribute_points import attribute_points
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied, TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.policies import Policy
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.policies.replay import LabellingPolicy, ReplayPolicy
from tornlog.sim.schedule import TaskSwitch
from tornlog.sim.search import explore_schedules
from tornlog.sim.shared_attributes import shared_attributes


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.name = "never assigned again"
        self.seen: list[int] = []
        self.closed_by = ""

    def add(self) -> None:
        self.count += 1

    def forget(self) -> None:
        del self.count


class NamedCounter(Counter):
    limit = 5

    def __init__(self) -> None:
        super().__init__()
        self.seen = []
        self.names = deque[str]()

    @property
    def twice(self) -> int:
        return 2 * self.count

    def raise_limit(self) -> None:
        self.limit = 9


class Slotted:
    __slots__ = ("before", "value")

    def __init__(self) -> None:
        self.value = 0

    def change(self) -> None:
        self.before = self.value
        self.value += 1


@dataclass
class Measured:
    size: int = 0
    parts: list[int] = field(default_factory=list)

    def grow(self) -> None:
        self.size += 1


@dataclass(eq=False)
class Shelf:
    size: int = 0
    parts: list[int] = field(default_factory=list)


def close_counter(counter: Counter) -> None:
    counter.closed_by = "somebody"


THIS = sys.modules[__name__]
CLASSES = (Counter, NamedCounter, Slotted, Shelf)


@contextmanager
def points_of(kernel: Kernel, *classes: type) -> Iterator[None]:
    with attribute_points(kernel, shared_attributes(*classes)):
        yield


def names_of(*classes: type) -> set[str]:
    return {f"{each.owner.__name__}.{each.name}" for each in shared_attributes(*classes)}


def walk(seed: int) -> RandomWalk:
    return RandomWalk(Choices(str(seed)).stream("policy"), 2)


def count_together(policy: Policy) -> tuple[int, Kernel]:
    """Let two tasks count in one object; return the final count."""
    kernel, machine = make(policy)

    def body() -> int:
        counter = Counter()
        for task in [machine.tasks.spawn(name, counter.add) for name in "ab"]:
            task.join(None)
        return counter.count

    with kernel, points_of(kernel, Counter):
        return kernel.run(machine, body, time_limit_ns=0), kernel


# Attributes that can race


def test_attributes_assigned_by_methods_and_containers_can_race() -> None:
    assert names_of(Counter) == {"Counter.count", "Counter.seen", "Counter.closed_by"}


def test_an_inherited_attribute_is_attributed_to_the_base_class() -> None:
    assert names_of(Counter, NamedCounter) == names_of(Counter) | {"NamedCounter.limit", "NamedCounter.names"}


def test_an_attribute_is_a_container_by_its_initial_value_or_annotation() -> None:
    containers = {each.name for each in shared_attributes(Counter, NamedCounter, Shelf) if each.is_container}
    assert containers == {"names", "parts", "seen"}


def test_attributes_of_dataclasses_with_value_equality_are_not_shared() -> None:
    assert names_of(Measured, Shelf) == {"Shelf.parts"}


def test_shared_attributes_of_a_module_include_all_its_classes() -> None:
    assert {each.owner for each in shared_attributes(THIS)} == set(CLASSES)


def test_a_class_without_source_is_refused_with_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"its source cannot be read|no module whose source"):
        shared_attributes(int)


# Inside and outside of the block


def test_tasks_switch_between_reading_and_assigning_an_attribute_only_within_the_block() -> None:
    assert {count_together(walk(seed))[0] for seed in range(40)} == {1, 2}
    kernel, machine = make(walk(1))
    counter = Counter()
    before = kernel.steps
    counter.add()
    assert (kernel.steps, machine.alive) == (before, True)


def test_classes_are_restored_after_the_block() -> None:
    before = [dict(vars(owner)) for owner in CLASSES]
    kernel = Kernel(ReplayPolicy())
    with points_of(kernel, *CLASSES):
        assert [dict(vars(owner)) for owner in CLASSES] != before
    assert [dict(vars(owner)) for owner in CLASSES] == before


def labels_of(body: Callable[[Machine], object], *classes: type) -> list[str]:
    labels: list[str] = []

    class Listening(ReplayPolicy):
        def on_uncontested_point(self, current: object, label: str) -> None:
            labels.append(label)

        def quantum(self, chosen: object, step: int) -> int:
            return 0

    kernel, machine = make(Listening())
    with kernel, points_of(kernel, *classes):
        kernel.run(machine, lambda: body(machine), time_limit_ns=0)
    return [label for label in labels if label.startswith("attribute")]


def test_attribute_reads_assignments_and_containers_have_labels_but_not_in_constructors() -> None:
    def body(machine: Machine) -> None:
        counter = Counter()
        counter.add()
        counter.seen.append(counter.count)

    assert labels_of(body, Counter) == [
        "attribute Counter.count.get",
        "attribute Counter.count.set",
        "attribute Counter.seen.use",
        "attribute Counter.count.get",
    ]


def test_slots_class_defaults_and_deletions_work_inside_the_block() -> None:
    def body(machine: Machine) -> None:
        slotted, named = Slotted(), NamedCounter()
        with pytest.raises(AttributeError):
            slotted.before  # noqa: B018
        slotted.change()
        assert (slotted.before, slotted.value, named.limit) == (0, 1, 5)
        named.raise_limit()
        assert (named.limit, NamedCounter().limit, named.twice) == (9, 5, 0)
        named.forget()
        with pytest.raises(AttributeError, match="count"):
            named.count  # noqa: B018

    assert len(labels_of(body, *CLASSES)) == 14


def test_a_second_attribute_points_block_at_the_same_time_is_refused() -> None:
    kernel = Kernel(ReplayPolicy())
    with points_of(kernel, Counter), pytest.raises(AssertionError, match="one block at a time"):
        points_of(kernel, Counter).__enter__()
    assert "count" not in vars(Counter)


# What decides a run


def test_the_same_seed_gives_the_same_digest_with_attribute_points_under_any_policy(
    policy_of: Callable[[int], Policy],
) -> None:
    for seed in range(10):
        once, again = (count_together(policy_of(seed)) for _ in range(2))
        assert (once[0], once[1].digest()) == (again[0], again[1].digest())


def test_a_lost_update_at_an_attribute_replays_by_its_label() -> None:
    seed = next(seed for seed in range(40) if count_together(walk(seed))[0] == 1)
    lost, kernel = count_together(walk(seed))
    labelling = LabellingPolicy(kernel.schedule)
    assert count_together(labelling)[0] == lost
    assert any(switch.label.startswith("attribute Counter.count.") for switch in labelling.labelled)
    assert count_together(ReplayPolicy(labelling.labelled))[1].digest() == kernel.digest()
    by_hand = ReplayPolicy([TaskSwitch("m/a", "attribute Counter.count.set", 1, "m/b")])
    assert count_together(by_hand)[0] == 1
    assert not by_hand.unused_switches


def test_a_schedule_search_finds_the_lost_update_with_one_preemption() -> None:
    search = explore_schedules(lambda policy: count_together(policy)[0], bound=1)
    assert {run.cost for run in search if run.result == 1} == {1}
    assert search.is_complete


def test_attribute_accesses_on_a_dead_machine_are_no_scheduling_points() -> None:
    kernel, machine = make(ReplayPolicy())
    counter = Counter()

    def body() -> None:
        machine.tasks.spawn("counting", counter.add)
        kernel.kill(machine)

    with points_of(kernel, Counter), kernel:
        with pytest.raises(MachineDied):
            kernel.run(machine, body, time_limit_ns=0)
        assert counter.count == 0


def test_an_atomic_comparison_of_attributes_is_no_scheduling_point() -> None:
    def compare(policy: Policy) -> tuple[int, int]:
        kernel, machine = make(policy)

        def body() -> tuple[int, int]:
            counter = Counter()
            machine.tasks.spawn("counting", counter.add)
            machine.tasks.sleep(0)
            with kernel.without_scheduling_points():
                return counter.count, counter.count

        with kernel, points_of(kernel, Counter):
            return kernel.run(machine, body, time_limit_ns=0)

    assert {compare(walk(seed)) for seed in range(40)} == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda machine, bell: machine.tasks.spawn("second", int), "second is spawned"),
        (lambda machine, bell: bell.notify(), "m/listener is woken"),
        (lambda machine, bell: machine.tasks.sleep(1), "m/main waits for sleep"),
    ],
)
def test_spawning_waking_or_waiting_inside_an_atomic_block_is_refused(use: Callable[..., None], what: str) -> None:
    kernel, machine = make(walk(1))

    def body() -> None:
        bell = machine.tasks.signal("bell")
        machine.tasks.spawn("listener", lambda: bell.wait(None))
        machine.tasks.sleep(1)
        with kernel.without_scheduling_points():
            use(machine, bell)

    with kernel, pytest.raises(TaskFailedError) as failed:
        kernel.run(machine, body, time_limit_ns=10_000_000)
    assert f"{what} inside without_scheduling_points" in str(failed.value.__cause__)


def test_attribute_accesses_of_another_thread_are_no_scheduling_points() -> None:
    kernel = Kernel(walk(1))
    kernel.fuel = 100  # within a quantum, as while a task runs
    slotted, counter, done = Slotted(), Counter(), []

    def use() -> None:
        slotted.change()
        counter.add()
        done.append((slotted.before, slotted.value, counter.count))
        counter.forget()

    with attribute_points(kernel, shared_attributes(Slotted, Counter)):
        before = kernel.steps
        thread = Thread(target=use)
        thread.start()
        thread.join()
        assert kernel.steps == before
        counter.count = 7
        assert counter.count == 7
        assert kernel.steps > before  # the same access in the kernel's own thread
    assert done == [(0, 1, 1)]
