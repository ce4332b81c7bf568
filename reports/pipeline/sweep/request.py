"""Sweep request: defines the seeds of a sweep, and their division into blocks.

A measurement at the start of a sweep determines how many seeds run in `BLOCK_SECONDS`. A block has that many seeds, or
fewer if cores would be idle. A resumed sweep has the same blocks on any machine, because sweep.json stores their sizes.
Rows do not depend on these sizes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from ....scenarios.campaigns.runner import Batch
from ....scenarios.claims.catalogue import SCENARIOS
from ..spark.engine import own_code_version

BLOCK_SECONDS = 45.0
"""Target duration of a block. The death of an executor loses that much work; a file and a task cost only 0.1 s."""
BLOCK_SECONDS_MIN = 2.0
BLOCKS_A_CORE = 32
"""Minimum number of blocks per core, so that all cores end at about the same time."""
BLOCK_SEEDS_MAX = 20_000
"""Maximum number of seeds per block. All rows of a block, some KB each, stay in memory until it is written."""
SECONDS_A_SEED = 0.02
"""Assumed duration of a seed before any measurement."""
MERGED_SEEDS = 1_000_000
"""Maximum number of rows in a merged file of about 130 MB."""
FORMAT = "tornlog-sweep/2"
_FILE = re.compile(r"(.+)-([0-9]{10,})-([1-9][0-9]*)\.parquet")


class SweepFileError(Exception):
    """The sweep cannot be resumed or used by this version."""


@dataclass(frozen=True, slots=True, order=True)
class SeedSpan:
    """Seeds [first, first + count) of a scenario, which one row file contains and names."""

    scenario: str
    first: int
    count: int

    def __post_init__(self) -> None:
        # a negative first seed would add a minus sign to the file name, and a file needs rows
        assert self.first >= 0 < self.count, self

    @classmethod
    def of_file(cls, name: str) -> "SeedSpan | None":
        """Parse the name of a row file; return None for other names."""
        found = _FILE.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def file_name(self) -> str:
        return f"{self.scenario}-{self.first:010d}-{self.count}.parquet"


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Seeds [first, last) of each scenario, optionally with one disk, one policy or one mutant."""

    scenarios: tuple[str, ...]
    first: int
    last: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None
    block_seeds: int | None = None
    """Number of seeds in a block; None: as many as run in `BLOCK_SECONDS`."""

    @property
    def seeds(self) -> int:
        return len(self.scenarios) * (self.last - self.first)

    def sizes(self, seconds_a_seed: Mapping[str, float], cores: int) -> dict[str, int]:
        """Return the seeds per block of each scenario."""
        seconds = sum(seconds_a_seed[name] for name in self.scenarios) * (self.last - self.first)
        wanted = min(BLOCK_SECONDS, max(BLOCK_SECONDS_MIN, seconds / (cores * BLOCKS_A_CORE)))
        return {name: max(1, min(BLOCK_SEEDS_MAX, int(wanted / seconds_a_seed[name]))) for name in self.scenarios}


@dataclass(frozen=True, slots=True)
class StartedSweep:
    """A started sweep: its request, code version (see `own_code_version`) and blocks."""

    request: SweepRequest
    seeds_a_block: Mapping[str, int] = field(default_factory=dict)
    """Number of seeds per block, by scenario. Scenarios without a measurement are absent."""
    code: str = field(default_factory=own_code_version)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """The start time, such as 2026-11-24T10:17:59+00:00."""

    def blocks(self) -> Iterator["Block"]:
        """Yield the first block of each scenario, then the second of each, and so on."""
        request, first = self.request, dict.fromkeys(self.request.scenarios, self.request.first)
        while first:
            for name, at in list(first.items()):
                if at >= request.last:
                    del first[name]
                    continue
                count = min(self.block_seeds(name), request.last - at)
                yield Block(name, at, count, request.disk, request.policy, request.mutant)
                first[name] = at + count

    def merged(self) -> Iterator[SeedSpan]:
        """Yield the spans of merged files. Each joins as many whole blocks of one scenario as fit."""
        for name in self.request.scenarios:
            size = self.block_seeds(name)
            step = max(1, MERGED_SEEDS // size) * size
            for first in range(self.request.first, self.request.last, step):
                yield SeedSpan(name, first, min(step, self.request.last - first))

    def block_seeds(self, scenario: str) -> int:
        """Return the seeds per block; the last block of a scenario may have fewer."""
        unmeasured = self.request.block_seeds or int(BLOCK_SECONDS_MIN / SECONDS_A_SEED)
        return self.seeds_a_block.get(scenario, unmeasured)

    def to_json(self) -> str:
        own = {"format": FORMAT, "code": self.code, "began": self.began, "seeds_a_block": dict(self.seeds_a_block)}
        return json.dumps({**own, **asdict(self.request)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "StartedSweep":
        """Raises SweepFileError for invalid text."""
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

    def __post_init__(self) -> None:
        assert all(size > 0 for size in self.seeds_a_block.values()), self.seeds_a_block

    def require_same(self, request: SweepRequest) -> None:
        """Raise SweepFileError unless request and code are those of this sweep.

        Only the same code computes the same rows for a seed, and equal version numbers do not prove that code is the
        same.
        """
        if self.request != request:
            raise SweepFileError("it has a sweep of other seeds or options")
        here = own_code_version()
        if self.code != here:
            raise SweepFileError(
                f"the sweep was started by {self.code}, this is {here}: the same seeds may give other rows now. Start a"
                " new sweep in another place"
            )


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive seeds of one scenario: one task and one row file."""

    scenario: str
    first: int
    count: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None

    @property
    def span(self) -> SeedSpan:
        return SeedSpan(self.scenario, self.first, self.count)

    @property
    def file_name(self) -> str:
        return self.span.file_name

    def batch(self) -> Batch:
        scenario = SCENARIOS[self.scenario].narrowed(disk=self.disk, policy=self.policy)
        return Batch(scenario, self.first, self.count, self.mutant)
