"""A sweep from what is asked for to its table: what is done already is not done again, and failures end up small."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow.compute as pc

from ....scenarios.campaigns.failures.failure import Failure
from ....scenarios.campaigns.failures.shrink import shrunk_within
from ..spark.engine import Engine
from .request import SweepRequest
from .rounds import COLUMNS, rounds_of
from .table import Table
from .work import BlockResult, do_block

SHRINK_SECONDS = 15.0


@dataclass(slots=True)
class SweepProgress:
    """How far a sweep is."""

    seeds: int
    """In all."""
    done_before: int = 0
    """Seeds that were in the table when it began, as far as its rounds are known."""
    done: int = 0
    """Seeds that it has done itself."""
    outcomes: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    work_seconds: float = 0.0
    """Wall time of the blocks, summed over processes."""

    @property
    def failures(self) -> int:
        """Return how many of its own seeds broke a promise."""
        return self.outcomes["violated"]

    @property
    def is_complete(self) -> bool:
        """Return whether every seed has its row."""
        return self.done_before + self.done == self.seeds

    def add(self, block: BlockResult) -> None:
        """Take note of a block."""
        self.done += block.seeds
        self.outcomes += block.outcomes
        self.signatures += block.signatures
        self.work_seconds += block.seconds


def sweep(
    request: SweepRequest,
    table: Table,
    engine: Engine,
    *,
    stop_after: int | None = None,
    on_progress: Callable[[SweepProgress], None] = lambda progress: None,
) -> SweepProgress:
    """Give every seed its row; stop_after: that many failures, or a few more, and then no further.

    Blocks whose rows are there, and whole, are not done again. Raises SweepFileError if the place holds another sweep,
    or one that other code began, or that is at work.
    """
    with table.held():
        begun = table.begun()
        if begun is None:
            table.begin(request)
        else:
            begun.require_same(request)
        return _sweep(request, table, engine, stop_after, on_progress)


def _sweep(
    request: SweepRequest,
    table: Table,
    engine: Engine,
    stop_after: int | None,
    on_progress: Callable[[SweepProgress], None],
) -> SweepProgress:
    finished = table.files(every_page=True).whole
    progress = SweepProgress(request.seeds)
    for blocks in rounds_of(request, partial(table.rows_of, columns=COLUMNS)):
        todo = [block for block in blocks if block.file_name not in finished]
        progress.done_before += sum(block.count for block in blocks) - sum(block.count for block in todo)
        on_progress(progress)
        for done in engine.results(partial(do_block, table.place), todo):
            progress.add(done)
            on_progress(progress)
            if stop_after is not None and progress.failures >= stop_after:
                return progress
    return progress


def smallest_failures(table: Table) -> list[Failure]:
    """Return the smallest failure of each signature in a table, by signature: the first in order if several are."""
    rows = table.read(["scenario", "seed", "signature", "size"])
    rows = rows.filter(pc.is_valid(rows["signature"])).to_pylist()
    order = {
        (row["signature"], tuple(row["size"].values()), row["scenario"], row["seed"]): row for row in rows
    }
    first: dict[str, tuple[str, int]] = {}
    for signature, _, scenario, seed in sorted(order):
        first.setdefault(signature, (scenario, seed))
    return [Failure.from_json(table.failure_text(*place)) for place in first.values()]


def shrunk_failures(
    failures: list[Failure], engine: Engine, seconds: float = SHRINK_SECONDS
) -> Iterator[Failure]:
    """Yield failures, each with a smaller run beside its own if one is found in so many seconds."""
    texts = [failure.to_json() for failure in failures]
    for text in engine.results(partial(shrunk_text, seconds=seconds), texts):
        yield Failure.from_json(text)


def shrunk_text(text: str, seconds: float) -> str:
    """Return a failure artefact with a smaller run in it."""
    return shrunk_within(Failure.from_json(text), seconds).to_json()
