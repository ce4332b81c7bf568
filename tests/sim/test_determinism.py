import itertools
import pickle
import random
import subprocess
import sys
from array import array
from functools import partial

import pytest

from tests.sim.rigs import make, walk
from tornlog.sim.choices import Choices
from tornlog.sim.determinism import check_determinism, first_difference, record_trace
from tornlog.sim.errors import LeakError, NondeterminismError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.trace import Trace, TraceEvent, TraceRecording


def digest_of_a_run(trace: Trace | None, *, extra_steps: int = 0, leak: bool = False, data: int = 0) -> str:
    kernel, machine = make(walk(mean=2), trace=trace)
    cell = machine.tasks.cell("c")

    def body() -> None:
        for _ in range(10 + extra_steps):
            cell.add(1)
        kernel.note((7, data))
        if leak:
            try:
                random.random()
            except Exception:
                cell.add(1)

    def main() -> None:
        for task in [machine.tasks.spawn(name, body) for name in "ab"]:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    return kernel.digest()


class Sheep: ...


def digest_of_set_iteration(trace: Trace | None, *, ordered: bool, herd: list[list[Sheep]]) -> str:
    """Sleep once per object in a set, in the order of the set."""
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 2), trace=trace)
    tasks = kernel.create_machine("m").tasks
    flock = [Sheep() for _ in range(200)]
    herd.append(flock)  # keeps the objects alive, so that the next set gets other addresses
    number_of = dict(zip(flock, range(200), strict=True))
    order = number_of if ordered else set(flock)

    def main() -> None:
        for sheep in order:
            tasks.spawn(f"sheep-{number_of[sheep]}", lambda: None)
            tasks.sleep(1 + number_of[sheep])

    kernel.run(tasks._machine, main, time_limit_ns=10**12)
    return kernel.digest()


IN_A_PROCESS = """
import sys
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.determinism import record_trace
import pickle

def run(trace):
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 2), trace=trace)
    machine = kernel.create_machine("m")
    names = {f"sheep-{number}" for number in range(20)}
    order = sorted(names) if sys.argv[1] == "sorted" else names
    def main():
        for name in order:
            machine.tasks.spawn(name, lambda: None)
            machine.tasks.sleep(1 + int(name.removeprefix("sheep-")))
    kernel.run(machine, main, time_limit_ns=10**12)
    return kernel.digest()

sys.stdout.buffer.write(pickle.dumps((run(None), record_trace(run))))
"""


def run_in_subprocess(order: str, hash_seed: int) -> tuple[str, TraceRecording]:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, order],
        env={"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        check=True,
    )
    found: tuple[str, TraceRecording] = pickle.loads(done.stdout)
    return found


def test_a_deterministic_run_returns_its_digest() -> None:
    assert check_determinism(digest_of_a_run) == digest_of_a_run(None)


def test_the_first_different_decision_of_two_runs_is_named() -> None:
    counter = itertools.count()
    with pytest.raises(NondeterminismError) as caught:
        check_determinism(lambda trace: digest_of_a_run(trace, extra_steps=next(counter)))
    digests = digest_of_a_run(None, extra_steps=0), digest_of_a_run(None, extra_steps=1)
    assert (caught.value.first, caught.value.second) == digests
    assert f"digests {digests[0]} and {digests[1]}; the runs differ after event " in str(caught.value)
    assert " m/main switch m/a] in one run" not in caught.value.difference  # the start is the same in all
    assert " in one run, event " in caught.value.difference


def test_differing_written_data_is_reported_with_the_preceding_event_and_checksums() -> None:
    counter = itertools.count()
    with pytest.raises(NondeterminismError) as caught:
        check_determinism(lambda trace: digest_of_a_run(trace, data=next(counter)))
    found = caught.value.difference
    assert found.startswith("the runs differ after event ")
    assert found.endswith("digest words (0x7, 0x2) in one run, (0x7, 0x3) in the other")


def test_a_difference_that_does_not_recur_is_reported_as_such() -> None:
    counter = itertools.count()
    with pytest.raises(NondeterminismError, match=r"; 4 more runs were all the same, so the difference is not"):
        check_determinism(lambda trace: digest_of_a_run(trace, data=1 if next(counter) == 1 else 0))


def test_nondeterminism_from_set_order_is_detected_and_named() -> None:
    run = partial(digest_of_set_iteration, herd=[])
    with pytest.raises(NondeterminismError) as caught:
        check_determinism(partial(run, ordered=False))
    assert "sheep-" in caught.value.difference
    assert check_determinism(partial(run, ordered=True))


def test_nondeterminism_from_string_hashing_is_detected_between_two_processes() -> None:
    (one, first), (other, second) = (run_in_subprocess("hashed", seed) for seed in (1, 2))
    assert one != other
    difference = first_difference(first, second)
    assert difference is not None
    assert "sheep-" in difference
    (one, first), (other, second) = (run_in_subprocess("sorted", seed) for seed in (1, 2))
    assert one == other
    assert first_difference(first, second) is None


def test_a_caught_leak_is_raised_at_the_end_of_the_run() -> None:
    with pytest.raises(LeakError, match=r"test_determinism\.py:\d+: simulated code called random\.random"):
        check_determinism(lambda trace: digest_of_a_run(trace, leak=True))


def recording(events: int, words: list[int], words_before: list[int]) -> TraceRecording:
    found = [TraceEvent(0, number, "m/a", "add", f"{number}") for number in range(events)]
    return TraceRecording(found, array("Q", words_before), array("Q", words))


def test_a_shorter_run_differs_at_its_end() -> None:
    longer, shorter = recording(2, [1, 2], [0, 2]), recording(1, [1, 2], [0])
    difference = first_difference(longer, shorter)
    assert difference is not None
    assert difference.endswith("event 2 [0.000000 ms step 1 m/a add 1] in one run, nothing more in the other")


def test_a_difference_before_the_first_event_is_reported_at_the_start() -> None:
    found = first_difference(recording(0, [1, 2], []), recording(0, [1, 2, 3, 4], []))
    takes = "digest words nothing more in one run, (0x3, 0x4) in the other"
    assert found == f"the runs differ after the start: {takes}"


def test_a_recording_contains_every_digest_word_of_a_long_run() -> None:
    def run(trace: Trace | None) -> str:
        kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 2), trace=trace)
        for number in range(10_000):
            kernel.note((number, 0))
            kernel._digest.hash_pending_words()
        return kernel.digest()

    found = record_trace(run)
    assert found.words[::2] == array("Q", range(10_000))
    assert run(None) == run(Trace())


def test_only_a_trace_created_for_comparison_gives_a_recording() -> None:
    trace = Trace()
    with pytest.raises(AssertionError, match="belongs to a kernel"):
        trace.recording()
    digest_of_a_run(trace)
    with pytest.raises(AssertionError, match="not made to compare"):
        trace.recording()
