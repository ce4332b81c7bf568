"""Sweep: runs all seeds that have no row in the table yet, and shrinks failures.

Seeds run in a forked child process, so a seed that hangs or kills its process affects only its own row. The parent
waits for each row with a timeout. If the child dies, the current seed gets the outcome `crashed`, and a new child
continues with the next seed. Forking is safe because Spark's worker and the in-process runner have a single thread.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter

import pyarrow.compute as pc

from ....scenarios.campaigns.failures.failure import Failure
from ....scenarios.campaigns.failures.shrink import shrink_for_seconds
from ....scenarios.campaigns.runner import Batch, results_of
from ....scenarios.campaigns.seeds import SeedResult
from ....scenarios.campaigns.worker_pool import become_worker
from ....sim.process import STALL_SECONDS
from ..spark.engine import Engine
from .request import SECONDS_A_SEED, Block, StartedSweep, SweepRequest
from .rows import Row, row_of
from .table import Table

SECONDS_MAX = 60.0
"""Wall-time limit per seed, far above the CPU time limit of a run."""

_FORK = get_context("fork")
SHRINK_SECONDS = 15.0
_MEASURED_SEEDS = 8
_UNMEASURED_SEEDS = 200
"""For fewer seeds per scenario, a measurement takes more time than it saves."""


@dataclass(slots=True)
class BlockResult:
    """The outcomes and durations of a block."""

    block: Block
    outcomes: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def seeds(self) -> int:
        return self.outcomes.total()

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows unchanged, and count their outcomes."""
        for row in rows:
            self.outcomes[row["outcome"]] += 1
            if row["signature"] is not None:
                self.signatures[row["signature"]] += 1
            yield row


def run_block(place: str, block: Block, seconds_max: float = SECONDS_MAX) -> BlockResult:
    began = perf_counter()
    done = BlockResult(block)
    Table(place).write(block, done.watch(isolated_rows(block.batch(), seconds_max)))
    done.seconds = perf_counter() - began
    assert done.seeds == block.count, f"{done.seeds} rows in {block.file_name}"
    return done


def rows_of(batch: Batch) -> Iterator[Row]:
    """Run the seeds in this process, and yield one row per seed."""
    for result in results_of(batch, stall_seconds=STALL_SECONDS, in_detail=True):
        yield row_of(result, batch.mutant)


def isolated_rows(batch: Batch, seconds_max: float = SECONDS_MAX) -> Iterator[Row]:
    """Run the seeds in child processes, and yield one row per seed in order, even if a child dies."""
    done = 0
    while done < batch.count:
        rest = replace(batch, first=batch.first + done, count=batch.count - done)
        for row in _rows_of_child(rest, seconds_max):
            yield row
            done += 1


def _rows_of_child(batch: Batch, seconds_max: float) -> Iterator[Row]:
    """Yield rows until the end, or up to a seed that kills the child process."""
    receiver, sender = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_send_rows, args=(batch, receiver, sender), daemon=True)
    child.start()
    sender.close()
    try:
        for seed in batch.seeds:
            if not receiver.poll(seconds_max):
                yield _lost_row(batch, seed, "timed-out", f"no result within {seconds_max:g} s")
                return
            try:
                row: Row = receiver.recv()
            except EOFError:
                child.join()
                yield _lost_row(batch, seed, "crashed", f"the process ended with {child.exitcode}")
                return
            yield row
    finally:
        receiver.close()
        child.kill()
        child.join()


def _send_rows(batch: Batch, receiver: Connection, sender: Connection) -> None:
    """receiver: the parent's end of the pipe."""
    become_worker()
    receiver.close()
    # Freeing an object of the parent may wait for its threads, which a forked child does not have.
    gc.freeze()
    try:
        for row in rows_of(batch):
            sender.send(row)
    except BrokenPipeError:
        return  # the parent no longer reads


def _lost_row(batch: Batch, seed: int, outcome: str, error: str) -> Row:
    return row_of(SeedResult(batch.scenario.name, seed, outcome, error=error), batch.mutant)


@dataclass(slots=True)
class SweepProgress:
    """The number of finished seeds and failures of a sweep."""

    seeds: int
    done_before: int = 0
    """Number of seeds with a row before this call."""
    done: int = 0
    """Number of seeds that this call has run."""
    outcomes: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    work_seconds: float = 0.0
    """Summed wall time of the finished blocks."""

    @property
    def failures(self) -> int:
        return self.outcomes["violated"]

    @property
    def left(self) -> int:
        return self.seeds - self.done_before - self.done

    @property
    def is_complete(self) -> bool:
        return not self.left

    def add(self, block: BlockResult) -> None:
        self.done += block.seeds
        assert self.left >= 0, f"{self.done_before} and {self.done} of {self.seeds} seeds"
        self.outcomes += block.outcomes
        self.signatures += block.signatures
        self.work_seconds += block.seconds


def run_sweep(
    request: SweepRequest,
    table: Table,
    engine: Engine,
    *,
    stop_after: int | None = None,
    on_progress: Callable[[SweepProgress], None] = lambda progress: None,
) -> SweepProgress:
    """Run every seed that has no row yet.

    stop_after: stop after about this many failures. Raises SweepFileError if the table belongs to another request, to
    other code, or to a running sweep.
    """
    with table.locked():
        begun = table.begun()
        if begun is None:
            begun = StartedSweep(request, measured_sizes(request, engine))
            table.start_sweep(begun)
        else:
            begun.require_same(request)
        files = table.files(every_page=True, engine=engine)
        done_before = sum(block.count for block in begun.blocks() if files.holds(block.span))
        progress = SweepProgress(request.seeds, done_before)
        on_progress(progress)
        todo = (block for block in begun.blocks() if not files.holds(block.span))
        for done in engine.results(partial(run_block, table.place), todo):
            progress.add(done)
            on_progress(progress)
            if stop_after is not None and progress.failures >= stop_after:
                break
    return progress


def measured_sizes(request: SweepRequest, engine: Engine) -> dict[str, int]:
    """Measure a few seeds, and return the number of seeds per block of each scenario.

    Return an empty result, without running seeds, if the request is small or sets the block size.
    """
    if request.block_seeds is not None or request.last - request.first <= _UNMEASURED_SEEDS:
        return {}
    few = Block("", request.first, _MEASURED_SEEDS, request.disk, request.policy, request.mutant)
    found = engine.results(seconds_per_seed, [replace(few, scenario=name) for name in request.scenarios])
    return request.sizes(dict(found), engine.cores)


def seconds_per_seed(block: Block) -> tuple[str, float]:
    """Return scenario and duration. Excludes the first seed, which is slower."""
    rows = isolated_rows(block.batch())
    next(rows)
    began = perf_counter()
    more = sum(1 for _ in rows)
    return block.scenario, max((perf_counter() - began) / more, SECONDS_A_SEED / 100)


def smallest_failures(table: Table) -> list[Failure]:
    """Return the first smallest failure of each signature."""
    rows = table.read(["scenario", "seed", "signature", "size"], pc.field("signature").is_valid()).to_pylist()
    order = {(row["signature"], tuple(row["size"].values()), row["scenario"], row["seed"]): row for row in rows}
    first: dict[str, tuple[str, int]] = {}
    for signature, _, scenario, seed in sorted(order):
        first.setdefault(signature, (scenario, seed))
    return [Failure.from_json(table.failure_text(*place)) for place in first.values()]


def shrunk_failures(failures: list[Failure], engine: Engine, seconds: float = SHRINK_SECONDS) -> Iterator[Failure]:
    """Shrink each failure for at most `seconds`, and add the smaller run if there is one."""
    texts = [failure.to_json() for failure in failures]
    for text in engine.results(partial(shrunk_text, seconds=seconds), texts):
        yield Failure.from_json(text)


def shrunk_text(text: str, seconds: float) -> str:
    return shrink_for_seconds(Failure.from_json(text), seconds).to_json()
