import pytest

from tests.sim.rigs import make, walk
from tornlog.sim.errors import MachineDied
from tornlog.sim.machine import SimTask, WaitReason
from tornlog.sim.trace import RollingDigest, Trace


def test_a_trace_has_starts_switches_ends_and_kills_with_time_and_task() -> None:
    trace = Trace()
    kernel, machine = make(trace=trace)

    def main() -> None:
        machine.tasks.spawn("a", lambda: machine.tasks.sleep(3)).join(None)
        trace.add_event("write", "commitlog/0 [0, 512)")
        kernel.kill(machine)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=10_000_000)

    story = [(event.now_ns, event.task, event.kind, event.text) for event in trace]
    assert [entry for entry in story if entry[2] != "switch"] == [
        (0, "m/main", "start", "m/main"),
        (0, "m/a", "start", "m/a"),
        (3_000_000, "m/a", "end", "m/a"),
        (3_000_000, "m/main", "write", "commitlog/0 [0, 512)"),
        (3_000_000, "m/main", "kill", "m"),
        (3_000_000, "m/main", "end", "m/main"),
    ]
    assert (0, "m/main", "switch", "m/a") in story
    assert len(trace) == len(story)


def test_the_last_events_of_a_trace_are_in_order_and_print_as_lines() -> None:
    trace = Trace()
    kernel, _ = make(trace=trace)
    for number in range(5):
        trace.add_event("mark", str(number))
    assert [event.text for event in trace.last_events(2)] == ["3", "4"]
    assert trace.last_events(0) == []
    assert str(trace.last_events(1)[0]).split() == ["0.000000", "ms", "step", "0", "outside", "mark", "4"]
    assert kernel.trace is trace


def test_tracing_does_not_change_the_run() -> None:
    def digest_with(trace: Trace | None) -> str:
        kernel, machine = make(walk(mean=2), trace=trace)
        cell = machine.tasks.cell("c")

        def main() -> None:
            tasks = [machine.tasks.spawn(name, lambda: [cell.add(1) for _ in range(20)]) for name in "ab"]
            for task in tasks:
                task.join(None)

        kernel.run(machine, main, time_limit_ns=0)
        return kernel.digest()

    assert digest_with(None) == digest_with(Trace())


class Waits(Trace):
    """A trace of waits and their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.story: list[tuple[int, str]] = []

    def on_parked(self, why: WaitReason) -> None:
        kernel = self._kernel
        assert kernel is not None
        self.story.append((kernel.now_ns, f"{kernel.current.name} waits: {why.describe()}"))

    def on_ready(self, task: SimTask) -> None:
        assert self._kernel is not None
        self.story.append((self._kernel.now_ns, f"{task.name} can run"))


def test_a_trace_is_called_for_every_wait_and_its_end() -> None:
    trace = Waits()
    kernel, machine = make(trace=trace)
    lock = machine.tasks.lock("put")

    def hold() -> None:
        with lock:
            machine.tasks.sleep(2)

    def main() -> None:
        task = machine.tasks.spawn("a", hold)
        machine.tasks.sleep(1)
        with lock:
            pass
        task.join(None)

    kernel.run(machine, main, time_limit_ns=10_000_000)
    assert trace.story == [
        (0, "m/main waits: sleep"),
        (0, "m/a waits: sleep"),
        (1_000_000, "m/main can run"),
        (1_000_000, "m/main waits: lock put held by m/a"),
        (2_000_000, "m/a can run"),
        (2_000_000, "m/main can run"),
    ]
    assert len(trace) > 0


def digest_of(*notes: tuple[int, int]) -> str:
    digest = RollingDigest()
    for word, detail in notes:
        digest.note((word, detail))
        digest.hash_pending_words()
    return digest.hexdigest()


def test_the_digest_depends_on_every_note_and_its_order() -> None:
    digests = {digest_of(), digest_of((1, 2)), digest_of((2, 1)), digest_of((1, 2), (3, 4)), digest_of((3, 4), (1, 2))}
    assert len(digests) == 5
    assert digest_of((1, 2)) == "f59df9f51bfcb52f7ae49756810ec78b"


def test_reading_the_digest_does_not_change_it() -> None:
    digest = RollingDigest()
    for number in range(10_000):
        digest.note((number, 0))
        if number % 7 == 0:
            digest.hash_pending_words()
        if number % 1000 == 0:
            digest.hexdigest()
    assert digest.hexdigest() == digest.hexdigest() == digest_of(*((number, 0) for number in range(10_000)))


def test_a_digest_word_that_does_not_fit_in_64_bits_is_an_error() -> None:
    digest = RollingDigest()
    digest.note((1 << 64, 0))
    with pytest.raises(OverflowError):
        digest.hexdigest()
