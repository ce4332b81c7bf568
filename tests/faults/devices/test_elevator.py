from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.devices.drives import HardDisk
from tornlog.faults.devices.elevator import merge_runs

RunTimed = Callable[..., Any]
FAR = 1_000_000


def test_waiting_writes_are_sorted_and_merged(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    first = elevator.write([(FAR, 1)])  # issued alone; the other writes wait for it
    timed.sleep(0.01)
    rest = [elevator.write([(FAR + block, 1)]) for block in (30, 10, 31, 11, 20)]
    for request in (first, *rest):
        elevator.wait(request)

    assert notebook.commands == [("write", [(FAR, 1)]), ("write", [(FAR + 10, 2), (FAR + 20, 1), (FAR + 30, 2)])]


def test_the_elevator_ascends_and_then_restarts_at_the_lowest_block(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    first = elevator.write([(FAR + 50, 1)])
    timed.sleep(0.01)
    rest = [elevator.write([(FAR + block, 1)]) for block in (10, 60, 20, 70)]
    for request in (first, *rest):
        elevator.wait(request)

    assert notebook.commands[1] == ("write", [(FAR + block, 1) for block in (60, 70, 10, 20)])


@with_settings(sorts_requests=False)
def test_without_sorting_requests_are_issued_in_order_of_arrival(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    first = elevator.write([(FAR + 50, 1)])
    timed.sleep(0.01)
    rest = [elevator.write([(FAR + block, 1)]) for block in (70, 10)]
    rest += [elevator.read([(FAR + 30, 1)]), elevator.write([(FAR + 11, 1)])]
    for request in (first, *rest):
        elevator.wait(request)

    assert notebook.commands[1:] == [("write", [(FAR + 70, 1), (FAR + 10, 2)]), ("read", [(FAR + 30, 1)])]


def test_write_batches_are_limited_and_a_request_ends_with_its_last_run(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    assert timed.took_us(lambda: elevator.wait(elevator.write([(FAR + 2 * n, 1) for n in range(20)]))) == 20 * 101
    assert [len(runs) for _, runs in notebook.commands] == [16, 4]


def test_the_elevator_serves_reads_first_without_starving_writes(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator

    def read_on() -> None:
        for block in range(6):
            elevator.wait(elevator.read([(FAR + 1_000 + block, 1)]))

    def write_a_lot() -> None:
        timed.sleep(0.05)
        elevator.wait(elevator.write([(FAR + 2 * number, 1) for number in range(32)]))

    timed.at_once(read_on, read_on, write_a_lot)
    kinds = [kind for kind, _ in notebook.commands]

    assert "write" in kinds[:6]
    assert kinds.index("write") < len(kinds) - 1 - kinds[::-1].index("read")
    assert "read" in kinds[kinds.index("write") : len(kinds) - kinds[::-1].index("write")]


def test_waiting_tasks_share_a_device_flush(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    elevator.wait(elevator.write([(FAR, 1)]))
    requests = [elevator.flush() for _ in range(3)]
    for request in requests:
        elevator.wait(request)

    assert [kind for kind, _ in notebook.commands] == ["write", "flush"]


def test_device_operations_are_counted(timed: Any) -> None:
    elevator = timed.system.elevator
    elevator.wait(elevator.write([(FAR, 5)]))
    timed.sleep(1)
    elevator.wait(elevator.read([(FAR, 3)]))
    assert (elevator.busy_ns, elevator.commands) == ((105 + 103) * 1_000, 2)
    assert (elevator.blocks_written, elevator.blocks_read) == (5, 3)


def test_adjacent_and_overlapping_runs_are_merged() -> None:
    assert merge_runs([(5, 2), (7, 1), (7, 3), (11, 1), (2, 1), (3, 1)]) == [(5, 5), (11, 1), (2, 2)]
    assert merge_runs([(5, 9), (6, 1)]) == [(5, 9)]


@with_settings(device=HardDisk)
def test_sequential_writes_get_the_bandwidth_of_a_hard_disk(timed: Any) -> None:
    blocks, chunk = 50_000, 1_000
    elevator = timed.system.elevator

    def write_all() -> None:
        requests = [elevator.write([(FAR + at, chunk)]) for at in range(0, blocks, chunk)]
        for request in requests:
            elevator.wait(request)

    took_us = timed.took_us(write_all)

    assert blocks * 4096 / took_us == pytest.approx(200, rel=0.05)  # MB/s


def test_sorted_writes_take_less_time_on_a_hard_disk(run_timed: RunTimed) -> None:
    blocks = Random(1).sample(range(1 << 29), 160)

    def together(timed: Any) -> float:
        elevator = timed.system.elevator
        return timed.took_us(lambda: elevator.wait(elevator.write([(FAR + block, 1) for block in blocks])))

    def one_by_one(timed: Any) -> float:
        elevator = timed.system.elevator

        def write_each() -> None:
            for block in blocks:
                elevator.wait(elevator.write([(FAR + block, 1)]))

        return timed.took_us(write_each)

    assert run_timed(one_by_one, device=HardDisk) > 1.5 * run_timed(together, device=HardDisk)


def test_a_long_run_does_not_delay_short_ones(timed: Any, notebook: Any) -> None:
    elevator = timed.system.elevator
    for at in range(0, 4_096, 256):
        elevator.write([(FAR + at, 256)])
    timed.sleep(0.01)
    assert timed.took_us(lambda: elevator.wait(elevator.read([(0, 1)]))) < 2_000
    assert max(count for _, count in notebook.of("write")) <= 1_024
