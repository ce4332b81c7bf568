"""One block of a sweep, from its seeds to its file: what an executor does."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

from .isolation import SECONDS_MAX, isolated_rows
from .request import Block
from .rows import Row
from .table import Table


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
