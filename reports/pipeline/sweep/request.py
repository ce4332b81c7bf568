"""The request of a sweep, and the blocks of seeds that it is cut into."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from .... import __version__
from ....scenarios.campaigns.runner import Batch
from ....scenarios.claims.catalogue import SCENARIOS
from ..spark.engine import code_here

BLOCK_SEEDS = 500
"""Seeds of one block: some seconds of work, so that handing it out costs less than 2 %."""
FORMAT = "tornlog-sweep/1"


class SweepFileError(Exception):
    """The description of a sweep that this version cannot go on with."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Seeds [first, last) of each of some scenarios, on one disk or under one policy only, or with one bug put in."""

    scenarios: tuple[str, ...]
    first: int
    last: int
    disk: str | None = None
    policy: str | None = None
    mutant: str | None = None
    block_seeds: int = BLOCK_SEEDS

    @property
    def seeds(self) -> int:
        """Return how many seeds there are in all."""
        return len(self.scenarios) * (self.last - self.first)

    def blocks(self) -> Iterator["Block"]:
        """Yield all blocks, scenarios taking turns."""
        for first in range(self.first, self.last, self.block_seeds):
            count = min(self.block_seeds, self.last - first)
            for name in self.scenarios:
                yield Block(name, first, count, self.disk, self.policy, self.mutant)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a sweep was asked for when it was begun, and the code that began it, as `code_here` names it."""

    request: SweepRequest
    code: str = field(default_factory=code_here)

    def to_json(self) -> str:
        """Return the description that is kept beside the rows."""
        description = {"format": FORMAT, "tornlog": __version__, "code": self.code, **asdict(self.request)}
        return json.dumps(description, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Begun":
        """Read a description. SweepFileError if it is none, or if its rows are another version's."""
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise SweepFileError(f"format: expected {FORMAT}")
            version, code = found.pop("tornlog"), found.pop("code", "code that nobody noted")
            request = SweepRequest(**{**found, "scenarios": tuple(found["scenarios"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SweepFileError(f"not the description of a sweep: {error}") from error
        if version != __version__:
            raise SweepFileError(f"tornlog: the sweep was begun by {version}, this is {__version__}")
        return cls(request, code)

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
    def file_name(self) -> str:
        """Return the name of its file of rows."""
        return f"{self.scenario}-{self.first:010d}-{self.count}.parquet"

    def batch(self) -> Batch:
        """Return what the runner takes."""
        scenario = SCENARIOS[self.scenario].narrowed(disk=self.disk, policy=self.policy)
        return Batch(scenario, self.first, self.count, self.mutant)
