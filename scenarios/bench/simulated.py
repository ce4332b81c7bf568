"""What the simulation does in a second, on one core."""

from dataclasses import replace
from time import perf_counter

from ...sim.choices import Choices
from ...sim.kernel import Kernel
from ...sim.policies.random_walk import RandomWalk
from ..plan import Life, Plan, Ranges, draw_plan
from ..run import Run
from ..runner import garbage_kept

_HOUR_NS = 3600 * 1_000_000_000


def kernel_steps() -> float:
    """Return scheduling points per second of two tasks on one cell, digest on."""
    loops = 100_000
    with Kernel(RandomWalk(Choices("bench").stream("schedule"), 8)) as kernel:
        machine = kernel.machine("m")

        def body() -> None:
            cell = machine.tasks.cell("shared")

            def count() -> None:
                for _ in range(loops):
                    cell.add(1)

            tasks = [machine.tasks.spawn(f"task-{number}", count) for number in range(2)]
            for task in tasks:
                task.join(None)

        began = perf_counter()
        kernel.run(machine, body, time_limit_ns=_HOUR_NS)
        return kernel.steps / (perf_counter() - began)


def _plan(producers: int, messages_each: int, ending: str) -> Plan:
    """Return producers of messages of some 200 bytes under sync flush, in segments of 16 KiB."""
    plan = draw_plan(Choices("bench").stream("plan"), Ranges())
    return replace(
        plan,
        sync_flush=True,
        commit_log_bytes=16384,
        consume_queue_bytes=1000,
        recover_whole_log=True,
        producers=producers,
        consumers=0,
        topics=2,
        queues_per_topic=2,
        body_bytes_max=200,
        property_bytes_max=0,
        equal_sizes=False,
        batch_chance=0.0,
        illegal_chance=0.0,
        no_wait_chance=0.0,
        pause_chance=0.0,
        policy="random-walk",
        policy_parameter=16,
        lives=(Life(ending, "ext4-ordered", -1, "after", messages_each),),
    )


def simulated_messages() -> float:
    """Return messages per second that are put, flushed, dispatched, stopped on, recovered and judged.

    Eight producers, who share syncs as producers do; each message is recovered three times and judged twice.
    """
    plan = _plan(8, 200, "stop")
    began = perf_counter()
    with garbage_kept():
        outcome = Run(plan, Choices("bench/messages")).execute()
    assert not outcome.violations, outcome.violations
    return outcome.messages / (perf_counter() - began)


def crash_runs() -> float:
    """Return complete runs per second: open, 3 producers of 17 messages, crash, recover, judge, heal, judge."""
    runs = 20
    plan = _plan(3, 17, "crash at rest")
    began = perf_counter()
    with garbage_kept():
        for number in range(runs):
            outcome = Run(plan, Choices(f"bench/crash/{number}")).execute()
            assert not outcome.violations, outcome.violations
            assert outcome.crashes == 1
    return runs / (perf_counter() - began)
