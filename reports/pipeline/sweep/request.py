"""The request of a sweep, and the blocks of seeds that it is cut into.

A block is so many seeds as take `BLOCK_SECONDS` by measurement when a sweep is begun, or fewer if that leaves cores
without work. What was measured is noted once, in sweep.json: a sweep that goes on has the blocks that it began with,
whatever machines it goes on with. Rows do not depend on it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ....scenarios.campaigns.runner import Batch
from ....scenarios.claims.catalogue import SCENARIOS
from ..spark.engine import code_here

BLOCK_SECONDS = 45.0
"""Work in a block: what is lost when an executor dies in it, and long beside the 0.1 s that a file and a task cost."""
BLOCK_SECONDS_MIN = 2.0
BLOCKS_A_CORE = 32
"""Blocks that each core is to have at least, so that all end at about the same time."""
BLOCK_SEEDS_MAX = 20_000
"""A block's rows are held in memory until its file is written, some KB each."""
SECONDS_A_SEED = 0.02
"""What a seed is taken for that was not measured."""
MERGED_SEEDS = 1_000_000
"""Rows of a file in which blocks have been merged, at most: some 130 MB."""
FORMAT = "tornlog-sweep/2"
_FILE = re.compile(r"(.+)-([0-9]{10,})-([1-9][0-9]*)\.parquet")


class SweepFileError(Exception):
    """The description of a sweep that this version cannot go on with."""


@dataclass(frozen=True, slots=True, order=True)
class SeedSpan:
    """Seeds [first, first + count) of a scenario, which a file of rows holds and is named by."""

    scenario: str
    first: int
    count: int

    @classmethod
    def of_file(cls, name: str) -> "SeedSpan | None":
        """Return what a file of this name holds, None if it is no file of rows."""
        found = _FILE.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))

    @property
    def end(self) -> int:
        """Return the seed behind the last one."""
        return self.first + self.count

    @property
    def file_name(self) -> str:
        """Return the name of its file of rows."""
        return f"{self.scenario}-{self.first:010d}-{self.count}.parquet"


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Seeds [first, last) of each of some scenarios, on one disk or under one policy only, or with one bug put in."""

    scenarios: tuple[str, ...]
    first: int
    last: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None
    block_seeds: int | None = None
    """Seeds of a block; None for as many as time says."""

    @property
    def seeds(self) -> int:
        """Return how many seeds there are in all."""
        return len(self.scenarios) * (self.last - self.first)

    def sizes(self, seconds_a_seed: Mapping[str, float], cores: int) -> dict[str, int]:
        """Return how many seeds a block of each scenario has, for what a seed of it takes on one of so many cores."""
        seconds = sum(seconds_a_seed[name] for name in self.scenarios) * (self.last - self.first)
        wanted = min(BLOCK_SECONDS, max(BLOCK_SECONDS_MIN, seconds / (cores * BLOCKS_A_CORE)))
        return {name: max(1, min(BLOCK_SEEDS_MAX, int(wanted / seconds_a_seed[name]))) for name in self.scenarios}


@dataclass(frozen=True, slots=True)
class Begun:
    """What a sweep was asked for when it was begun, the code that began it as `code_here` names it, and its blocks."""

    request: SweepRequest
    seeds_a_block: Mapping[str, int] = field(default_factory=dict)
    """By scenario; one that is not here was not measured."""
    code: str = field(default_factory=code_here)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When, as in 2026-11-24T10:17:59+00:00."""

    def blocks(self) -> Iterator["Block"]:
        """Yield all blocks, scenarios taking turns."""
        asked, first = self.request, dict.fromkeys(self.request.scenarios, self.request.first)
        while first:
            for name, at in list(first.items()):
                if at >= asked.last:
                    del first[name]
                    continue
                count = min(self.block_seeds(name), asked.last - at)
                yield Block(name, at, count, asked.disk, asked.policy, asked.mutant)
                first[name] = at + count

    def merged(self) -> Iterator[SeedSpan]:
        """Yield what is to be one file when blocks are merged: so many whole blocks of one scenario as one may hold."""
        for name in self.request.scenarios:
            size = self.block_seeds(name)
            step = max(1, MERGED_SEEDS // size) * size
            for first in range(self.request.first, self.request.last, step):
                yield SeedSpan(name, first, min(step, self.request.last - first))

    def block_seeds(self, scenario: str) -> int:
        """Return how many seeds a block of a scenario has, but for its last one."""
        unmeasured = self.request.block_seeds or int(BLOCK_SECONDS_MIN / SECONDS_A_SEED)
        return self.seeds_a_block.get(scenario, unmeasured)

    def to_json(self) -> str:
        """Return the description that is kept beside the rows."""
        own = {"format": FORMAT, "code": self.code, "began": self.began, "seeds_a_block": dict(self.seeds_a_block)}
        return json.dumps({**own, **asdict(self.request)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Begun":
        """Read a description. SweepFileError if it is none."""
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise SweepFileError(f"format: expected {FORMAT}")
            own = [found.pop(name) for name in ("seeds_a_block", "code", "began")]
            datetime.fromisoformat(own[2])
            request = SweepRequest(**{**found, "scenarios": tuple(found["scenarios"])})
            sizes = {str(name): int(size) for name, size in own[0].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SweepFileError(f"not the description of a sweep: {error}") from error
        if any(size < 1 for size in sizes.values()):
            raise SweepFileError(f"seeds_a_block: expected more than 0, found {sizes}")
        return cls(request, sizes, str(own[1]), str(own[2]))

    def require_same(self, request: SweepRequest) -> None:
        """Raise SweepFileError unless a request is this one, and the code here that which began it.

        Rows of the same seeds are equal only where the code is, and a version does not prove that.
        """
        if self.request != request:
            raise SweepFileError("it holds a sweep of other seeds or with other options")
        here = code_here()
        if self.code != here:
            raise SweepFileError(
                f"the sweep was begun by {self.code}, this is {here}: the same seeds may be other runs now, and their"
                " rows would be mixed. Begin a new one elsewhere"
            )


@dataclass(frozen=True, slots=True)
class Block:
    """Some seeds of one scenario: one task, and one file of rows, whose name is the block's."""

    scenario: str
    first: int
    count: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None

    @property
    def span(self) -> SeedSpan:
        """Return its seeds."""
        return SeedSpan(self.scenario, self.first, self.count)

    @property
    def file_name(self) -> str:
        """Return the name of its file of rows."""
        return self.span.file_name

    def batch(self) -> Batch:
        """Return what the runner takes."""
        scenario = SCENARIOS[self.scenario].narrowed(disk=self.disk, policy=self.policy)
        return Batch(scenario, self.first, self.count, self.mutant)
