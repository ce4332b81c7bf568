"""Benchmarks of the simulation, on one core."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from statistics import median
from time import perf_counter, process_time

from tornlog.faults.disk import fault_injector, files, mapped_file
from tornlog.faults.simulation.explore import ExplorationCounts, explore_chunk, situation_of
from tornlog.faults.simulation.simulation import Simulation
from tornlog.scenarios.campaigns.explore_store import StoreRunExplorer, run_lives
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.runs.run_of import policy_of, run_of, simulation_of
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.process import collect_garbage_at_end
from tornlog.sim.trace import RollingDigest

_HOUR_NS = 3600 * 1_000_000_000
_PAIRS = 25
_new_digest = RollingDigest.__init__


def measure_kernel_steps() -> float:
    """Return scheduling points per second of two tasks on one cell, with the digest."""
    loops = 100_000
    with Kernel(RandomWalk(Choices("bench").stream("schedule"), 8)) as kernel:
        machine = kernel.create_machine("m")

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


def _plan(producers: int, messages_each: int, ending: LifeEnding, *, sync_flush: bool = True) -> Plan:
    """Return a plan of messages of about 200 bytes, in segments of 16 KiB."""
    plan = draw_plan(Choices("bench").stream("plan"), Ranges())
    return plan.replace(
        sync_flush=sync_flush,
        commit_log_bytes=16384,
        consume_queue_bytes=1000,
        recover_whole_log=True,
        producers=producers,
        consumers=0,
        topics=2,
        queues_per_topic=2,
        messages={
            "body_bytes_max": 200,
            "property_bytes_max": 0,
            "equal_sizes": False,
            "batch_chance": 0.0,
            "illegal_chance": 0.0,
            "no_wait_chance": 0.0,
        },
        pauses={"chance": 0.0},
        memory={"warm_files": False},
        index={"slots": 40, "entries": 200},
        policy="random-walk",
        policy_parameter=16,
        heals=False,
        lives=(Life(ending, "ext4-ordered", -1, "after", messages_each),),
    )


def measure_simulated_messages(*, sync_flush: bool, keyed: bool = False) -> float:
    """Return messages per second through put, flush, dispatch, stop, two recoveries and the judge.

    Eight producers that share syncs. keyed: each message has a key in an index.
    """
    plan = _plan(8, 200, LifeEnding.STOP, sync_flush=sync_flush)
    if not keyed:
        plan = plan.replace(index={"slots": 0})
    began = perf_counter()
    with collect_garbage_at_end():
        outcome = run_of(plan, simulation_of(plan, Choices("bench/messages"))).execute()
    assert not outcome.violations, outcome.violations
    return outcome.messages / (perf_counter() - began)


def measure_digest_overhead() -> float:
    """Return the cost of the digest in percent of complete crash runs: a median of pairs, with and without."""
    plan = _plan(3, 17, LifeEnding.CRASH_AT_REST)
    overheads = []
    for number in range(_PAIRS):
        seconds: dict[bool, float] = {}
        for is_off in (False, True) if number % 2 else (True, False):
            with collect_garbage_at_end(), _no_digest() if is_off else nullcontext():
                began = process_time()
                outcome = run_of(plan, simulation_of(plan, Choices(f"bench/crash/{number}"))).execute()
                seconds[is_off] = process_time() - began
            assert not outcome.violations, outcome.violations
        overheads.append((seconds[False] / seconds[True] - 1) * 100)
    return median(overheads)


@contextmanager
def _no_digest() -> Iterator[None]:
    """Replace the computation of digest words and checksums by no-ops. The calls remain."""
    stand_ins = (
        (RollingDigest, "__init__", _note_nothing),
        (files, "crc32", len),
        (mapped_file, "crc32", len),
        (fault_injector, "crc32", len),
    )
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in stand_ins]
    try:
        for owner, name, stand_in in stand_ins:
            setattr(owner, name, stand_in)
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _note_nothing(digest: RollingDigest) -> None:
    _new_digest(digest)
    digest.note = len  # type: ignore[assignment]


def measure_crash_runs(*, sync_flush: bool) -> float:
    """Return complete runs per second: open, 3 producers of 17 messages, crash, recover, judge, recover again."""
    runs = 20
    plan = _plan(3, 17, LifeEnding.CRASH_AT_REST, sync_flush=sync_flush)
    began = 0.0
    for number in range(runs + 1):
        if number == 1:  # the first run does late imports, which take as long as ten runs
            began = perf_counter()
        with collect_garbage_at_end():
            outcome = run_of(plan, simulation_of(plan, Choices(f"bench/crash/{number}"))).execute()
        assert not outcome.violations, outcome.violations
        assert outcome.crash_points == 1
    return runs / (perf_counter() - began)


def measure_crash_states() -> float:
    """Return crash states per second that are recovered and judged, at every third operation of one life.

    Three producers of 2 messages on any file system that POSIX allows, with an index. The time includes reaching each
    crash point and enumerating its states, most of which were judged before.
    """
    plan = replace(_plan(3, 2, LifeEnding.STOP), disk="strict-posix")
    choices = Choices("bench/explore")
    simulation = Simulation(choices, policy_of(plan, choices), crashes=())
    situation, _ = situation_of(run_lives, plan, simulation, profiles=DISK_MODELS[plan.disk].crashes)
    assert situation is not None, "a run without a crash breaks nothing"
    found: ExplorationCounts[Plan] = ExplorationCounts()
    began = perf_counter()
    explore_chunk(StoreRunExplorer(64, heal=False), situation, range(0, len(situation.points), 3), found)
    seconds = perf_counter() - began
    assert not found.breaches, found.breaches
    return found.total.judged / seconds
