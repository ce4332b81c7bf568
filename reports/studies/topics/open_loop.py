"""Puts that come when they come, on a timed machine."""

from array import array

from ....sim.task import Waiting
from ..latency.host import REFERENCE
from ..latency.open_loop import arrivals, produce
from ..latency.setup import Setup
from .costs import put_factor
from .layouts import SharedLog, TopicLayout
from .producing import let_produce, topics_of
from .timed_machine import TimedMachine

_DELAYED = Waiting("what delays a put")


def open_loop(machine: TimedMachine, layout: TopicLayout, rate: float) -> "array[int]":
    """Let puts arrive at a rate per second, whatever becomes of them; return their latencies in ns."""
    setup, kernel, processor = machine.setup, machine.kernel, machine.processor
    factor = put_factor(setup.layout, setup.topics)
    most_ns, dispatch_ns = round(REFERENCE.put_work_ns * factor), round(REFERENCE.dispatch_ns * factor)
    if isinstance(layout, SharedLog):
        layout.store.on_arriving.append(lambda _: processor.work(dispatch_ns))
    else:
        most_ns += dispatch_ns  # in this layout all that a put costs is part of it
    spread = REFERENCE.put.scaled(most_ns / REFERENCE.put_work_ns)
    series: list[array[int]] = [array("q") for _ in range(setup.producers)]
    gaps_ns = arrivals(Setup(setup.flush, setup.producers, rate, setup.puts, seed=setup.seed))

    def produce_all(number: int) -> None:
        draw, stream = topics_of(machine, number), machine.choices.stream(f"puts-{number}")

        def put() -> None:
            took_ns = spread.draw(stream, "put")
            work_ns = min(most_ns, took_ns)
            processor.work(work_ns)
            if took_ns > work_ns:
                kernel.park(_DELAYED, kernel.now_ns + took_ns - work_ns)
            layout.put(draw())

        series[number] = produce(gaps_ns[number], lambda: kernel.now_ns, machine.sleep_ns, put)

    let_produce(machine, produce_all)
    return sum(series, array("q"))
