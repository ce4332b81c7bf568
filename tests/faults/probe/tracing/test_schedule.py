"""A seed determines the order of the recorded steps of threads."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.probe.steps import as_short_texts
from tests.faults.probe.tracing.programs import compiled, python
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.control import RANDOM, RunControl
from tornlog.faults.probe.tracing.process import TracedRun
from tornlog.faults.probe.tracing.run import run_traced
from tornlog.faults.probe.tracing.schedule import SeededOrder
from tornlog.faults.probe.tracing.threads import AddressSpace, TracedThread

SEEDS = range(5)
DEPTH, HORIZON_STEPS, GAP_SEEDS = 2, 12, 40
WRITERS = """
def work(name):
    f = os.open(name, os.O_RDWR | os.O_CREAT)
    for number in range(4):
        os.write(f, b"%d" % number)
threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
for one in threads: one.start()
for one in threads: one.join()
print("done", flush=True)
"""
STORERS = """
f = file(content=bytes(8192))
m = mmap.mmap(f, 8192)
def store(at):
    for number in range(4):
        m[at + number] = number + 1
for at in (0, 4096):
    if not os.fork():
        store(at)
        os._exit(0)
os.wait(), os.wait()
"""
CHAIN = """
f, (read, write) = file(content=b""), os.pipe()
def produce():
    for _ in range(3):
        os.write(f, b"made")
        os.write(write, b"x")
thread = threading.Thread(target=produce)
thread.start()
for _ in range(3):
    os.read(read, 1)
    os.write(f, b"used")
thread.join()
"""
GAP = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static volatile int is_open, was_missed;
static void work(const char *name, int times) {
    int file = open(name, O_CREAT | O_WRONLY, 0644);
    while (times--) if (write(file, "x", 1) != 1) _exit(2);
    close(file);
}
static void *gap(void *unused) {
    for (int time = 0; time < 6; time++) {
        work("a", 1);
        is_open = 1;
        for (volatile int turn = 0; turn < 400; turn++);
        is_open = 0;
    }
    return unused;
}
static void *must_fit(void *unused) {
    int is_inside = 1;
    for (int turn = 0; turn < 12; turn++) { work("d", 1); is_inside &= is_open; }
    was_missed = is_inside;
    return unused;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(threads, 0, gap, 0);
    pthread_create(threads + 1, 0, must_fit, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    if (was_missed) work("broken", 1);
    return 0;
}
"""
"""24 steps of one thread must fit between two stores to memory of the other one."""
LOCKERS = """
import fcntl
def work(name):
    f = os.open(name, os.O_RDWR | os.O_CREAT)
    for _ in range(4):
        LOCK
threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
for one in threads: one.start()
for one in threads: one.join()
"""
SPINNER = """
begun = file("begun")
def compute():
    end = __import__("time").monotonic() + 1.0
    while __import__("time").monotonic() < end:
        pass
    file("computed")
thread = threading.Thread(target=compute)
thread.start()
file("meanwhile")
thread.join()
"""


def test_a_thread_without_cpu_time_is_waited_for_and_one_that_computes_is_not() -> None:
    """A stopped process is neither asleep nor gets CPU time, as a thread of a busy machine."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            held, other = (
                TracedThread(number, number, number, place, AddressSpace())
                for place, number in enumerate((0, program.pid))
            )
            program.send_signal(signal.SIGSTOP)
            time.sleep(0.1)  # the signal arrives
            order = SeededOrder(seed=0)
            assert order.pick_thread([held], [held, other]) is None
            time.sleep(0.5)
            assert order.pick_thread([held], [held, other]) is None

            program.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + 60
            while (picked := order.pick_thread([held], [held, other])) is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (picked, order.hurried) == (held, 1)
        finally:
            program.kill()


def run_with_seed(seed: int, lines: str) -> TracedRun:
    run = run_traced(python(lines), EMPTY, 60.0, control=RunControl(seed=seed))
    assert (run.record.unseen, run.unlike, run.record.exit) == ((), [], 0)
    return run


@pytest.mark.ci
def test_a_seed_repeats_its_thread_order_and_other_seeds_differ() -> None:
    orders = [as_short_texts(list(run_with_seed(seed, WRITERS).record.steps)) for seed in SEEDS]
    again = [as_short_texts(list(run_with_seed(seed, WRITERS).record.steps)) for seed in SEEDS]

    assert orders == again
    assert len({tuple(order) for order in orders}) > 2
    assert all(order[-1] == "acknowledge done" for order in orders)


@pytest.mark.ci
def test_stores_through_maps_and_calls_have_one_common_order() -> None:
    runs = [run_with_seed(seed, STORERS) for seed in SEEDS]
    orders = [[step.at // 4096 for step in run.record.steps if step.kind == "store"] for run in runs]

    assert all(order.count(0) == order.count(1) == 4 for order in orders)
    assert len({tuple(order) for order in orders}) > 2
    assert orders == [
        [step.at // 4096 for step in run_with_seed(seed, STORERS).record.steps if step.kind == "store"]
        for seed in SEEDS
    ]


@pytest.mark.ci
def test_every_thread_order_respects_a_wait_between_threads() -> None:
    for seed in SEEDS:
        written = [step.data.decode() for step in run_with_seed(seed, CHAIN).record.steps if step.kind == "write"]
        used = [place for place, one in enumerate(written) if one == "used"]

        assert len(used) == 3
        for place in used:
            assert written[:place].count("made") > written[:place].count("used")


@pytest.mark.slow
def test_pct_interrupts_a_thread_between_two_accesses_to_memory_where_random_choice_does_not(tmp_path: Path) -> None:
    program = [compiled(tmp_path, GAP, "-pthread")]

    def run(seed: int, depth: int) -> TracedRun:
        control = RunControl(seed=seed, depth=depth, horizon_steps=HORIZON_STEPS)
        found = run_traced(program, EMPTY, 60.0, control=control)
        assert (found.record.exit, found.record.unseen, found.unlike) == (0, (), [])
        return found

    def is_broken(found: TracedRun) -> bool:
        return any(step.path == "/files/broken" for step in found.record.steps)

    by_pct = {seed: found for seed in range(GAP_SEEDS) if is_broken(found := run(seed, DEPTH))}

    assert by_pct
    for seed, found in by_pct.items():
        assert run(seed, DEPTH).record.steps == found.record.steps
    assert not any(is_broken(run(seed, RANDOM)) for seed in range(GAP_SEEDS))


@pytest.mark.parametrize("lock", ["fcntl.lockf(f, fcntl.LOCK_EX)", "fcntl.flock(f, fcntl.LOCK_EX)"])
def test_threads_take_file_locks_in_a_seeded_order_without_a_step_for_a_lock(lock: str) -> None:
    locking = run_with_seed(1, LOCKERS.replace("LOCK", lock))
    other = run_with_seed(1, LOCKERS.replace("LOCK", "f"))

    assert locking.choices > other.choices
    assert len(locking.record.steps) == len(other.record.steps)


def test_a_scheduling_choice_made_while_a_thread_computes_counts_as_hurried() -> None:
    run = run_with_seed(0, SPINNER)

    assert run.hurried > 0
    assert {step.path for step in run.record.steps if step.kind == "create"} == {
        "/files/begun",
        "/files/meanwhile",
        "/files/computed",
    }
