"""A seed determines the order of the recorded steps of threads."""

import pytest

from tests.faults.probe.steps import as_short_texts
from tests.faults.probe.tracing.programs import python
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.control import RunControl
from tornlog.faults.probe.tracing.run import TracedRun, run_traced

SEEDS = range(5)
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


def test_a_scheduling_choice_made_while_a_thread_computes_counts_as_hurried() -> None:
    run = run_with_seed(0, SPINNER)

    assert run.hurried > 0
    assert {step.path for step in run.record.steps if step.kind == "create"} == {
        "/files/begun",
        "/files/meanwhile",
        "/files/computed",
    }
