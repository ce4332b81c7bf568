from collections.abc import Callable
from typing import Any

import pytest

from tornlog.reports.studies.latency.host import Interpreter
from tornlog.reports.studies.latency.waits import RecordingKernel
from tornlog.sim.machine import WaitReason
from tornlog.sim.policies.random_walk import RoundRobin

MS = 1_000_000


def causes(*bodies: Callable[[Any, Any], None]) -> list[dict[str, int]]:
    """Run bodies concurrently, and return the causes of each task's time from 0 to 100 ms, in ms."""
    kernel = RecordingKernel(RoundRobin(1 << 40), step_limit=1 << 60)
    with kernel:
        machine = kernel.create_machine("host")
        kernel.machine_name = "host"
        shared = machine.tasks.lock("put"), Interpreter(kernel)

        def run() -> None:
            tasks = [
                machine.tasks.spawn(f"task-{number}", lambda body=body: body(kernel, shared))
                for number, body in enumerate(bodies)
            ]
            for task in tasks:
                task.join(None)

        kernel.run(machine, run, time_limit_ns=10**12)
        found = [kernel.causes_of(f"host/task-{number}", 0, 100 * MS) for number in range(len(bodies))]
    return [{cause: ns // MS for cause, ns in each.items()} for each in found]


def park(kernel: Any, reason: str, ms: int) -> None:
    kernel.park(WaitReason(reason), kernel.now_ns + ms * MS)


def hold_the_lock(kernel: Any, shared: Any) -> None:
    with shared[0]:
        park(kernel, "dirty limit", 30)
        park(kernel, "thinking", 10)


def want_the_lock(kernel: Any, shared: Any) -> None:
    with shared[0]:
        park(kernel, "device", 20)


def hold_the_interpreter(kernel: Any, shared: Any) -> None:
    shared[1].run_holding(lambda: park(kernel, "journal locked", 40))


def want_the_interpreter(kernel: Any, shared: Any) -> None:
    shared[1].compute(5 * MS)


@pytest.mark.parametrize(
    ("holder", "waiter", "expected"),
    [
        (hold_the_lock, want_the_lock, {"computing": 50, "dirty limit": 30, "device": 20}),
        (hold_the_interpreter, want_the_interpreter, {"computing": 60, "journal locked": 40}),
    ],
)
def test_a_wait_for_a_holder_counts_as_the_waits_of_the_holder(
    holder: Callable[[Any, Any], None], waiter: Callable[[Any, Any], None], expected: dict[str, int]
) -> None:
    _, found = causes(holder, waiter)

    assert found == expected
    assert next(iter(found)) == next(iter(expected))


def test_other_tasks_that_wait_at_the_same_time_are_no_cause() -> None:
    def wait_elsewhere(kernel: Any, _: Any) -> None:
        park(kernel, "journal commit", 90)

    _, _, found = causes(wait_elsewhere, hold_the_lock, want_the_lock)

    assert "journal commit" not in found
