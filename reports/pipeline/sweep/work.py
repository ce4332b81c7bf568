"""Worker: one block of a sweep, from its seeds to its file, as an executor does it.

Seeds run in a process of their own, so that one that hangs or kills its process costs that seed and no other. The
parent waits so long for each row and no longer. What ends the child is blamed on the seed it was at; the next child
goes on behind it. A fork is used, for it is cheap, and safe where there is one thread only: in a worker of Spark's and
in the in-process runner.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter

from ....scenarios.campaigns.runner import Batch, results_of
from ....scenarios.campaigns.seeds import SeedResult
from ....sim.process import CPU_SECONDS_MAX
from .request import Block
from .rows import Row, row_of
from .table import Table

SECONDS_MAX = 60.0
"""Wall time of one seed: far beyond the CPU time after which a run is taken for one without an end."""

_FORK = get_context("fork")


@dataclass(slots=True)
class BlockResult:
    """What became of a block."""

    block: Block
    outcomes: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def seeds(self) -> int:
        """Return how many seeds it had."""
        return self.outcomes.total()

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Take note of rows on their way."""
        for row in rows:
            self.outcomes[row["outcome"]] += 1
            if row["signature"] is not None:
                self.signatures[row["signature"]] += 1
            yield row


def do_block(place: str, block: Block, seconds_max: float = SECONDS_MAX) -> BlockResult:
    """Run a block, write its rows, and return what came of it."""
    began = perf_counter()
    done = BlockResult(block)
    Table(place).write(block, done.watch(isolated_rows(block.batch(), seconds_max)))
    done.seconds = perf_counter() - began
    return done


def rows_of(batch: Batch) -> Iterator[Row]:
    """Run a batch in this process, and yield a row for each seed."""
    for result in results_of(batch, cpu_seconds_max=CPU_SECONDS_MAX, in_detail=True):
        yield row_of(result, batch.mutant)


def isolated_rows(batch: Batch, seconds_max: float = SECONDS_MAX) -> Iterator[Row]:
    """Run a batch in children, and yield a row for each seed, in order, whatever becomes of a child."""
    done = 0
    while done < batch.count:
        rest = replace(batch, first=batch.first + done, count=batch.count - done)
        for row in _of_one_child(rest, seconds_max):
            yield row
            done += 1


def _of_one_child(batch: Batch, seconds_max: float) -> Iterator[Row]:
    """Yield rows for as long as one child lives; the last one may be that of the seed it did not survive."""
    receiver, sender = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_run_all, args=(batch, receiver, sender), daemon=True)
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


def _run_all(batch: Batch, receiver: Connection, sender: Connection) -> None:
    """Be the child: send a row for each seed. receiver is the parent's, whose death ends this process, too."""
    receiver.close()
    try:
        for row in rows_of(batch):
            sender.send(row)
    except BrokenPipeError:
        return  # nobody is there to take the rows


def _lost_row(batch: Batch, seed: int, outcome: str, error: str) -> Row:
    return row_of(SeedResult(batch.scenario.name, seed, outcome, error=error), batch.mutant)
