"""Results of runs, mutation runs and sweeps, as their pages take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...scenarios.campaigns.blame import ViolationKind
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.mutation_run import MutantResult
from ...scenarios.campaigns.pairs import Pair
from ...scenarios.campaigns.runner import ALL, Reach, Tally
from ...scenarios.mutants.versions import Version

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FailureLinks:
    """A failure, and what is left of it beside the page: files by their paths from there, "" if there is none."""

    failure: Failure
    again: str
    """The command that shows it again."""
    name: str
    """What names it among the others of its page."""
    file: str = ""
    """The failure artefact."""
    timeline: str = ""
    """The page of its run."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """What `tornlog run` came to."""

    command: str
    """The command line."""
    tallies: Sequence[Tally]
    seconds: float
    broken: Sequence[ViolationKind] = ()
    """Every way in which a promise broke; with causes, if the bugs of a version were in."""
    mutant: str | None = None
    version: Version | None = None
    """Whose bugs were in."""
    never: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What had to come about and never did: names, by what they are names of."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """The first failure of each signature, by that."""
    reach: Reach = ALL


@dataclass(frozen=True, slots=True)
class MutationResults:
    """What `tornlog mutants` came to."""

    command: str
    """The command line."""
    mutant_results: Sequence[MutantResult]
    seconds: float
    survivors: Mapping[str, str]
    """Why mutants may live that nothing finds, by id."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """What found the mutants, by `Failure.name_of_mutant`."""
    reach: Reach = ALL


@dataclass(frozen=True, slots=True)
class SweepResults:
    """What one sweep came to, or several that were analysed together; tables are those of `pipeline.analysis`."""

    command_name: str
    """Of the command: sweep, or analyze."""
    command: str
    """The command line."""
    seconds: float
    pass_rates: Sequence[Row]
    put_latency: Sequence[Row]
    detections: Sequence[Row]
    injected: Mapping[str, int]
    marks: Mapping[str, int]
    pairs: Mapping[Pair, int] = field(default_factory=dict)
    """Seeds in which each pair of features and faults met."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """Seeds that came to a verdict, by disk."""
    tried: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Those of them that tried a promise, by invariant and disk."""
    broken: Mapping[tuple[str, str], int] | None = None
    """Seeds that broke a promise, by invariant and disk; None if nobody counted."""
    signatures: Mapping[str, int] = field(default_factory=dict)
    """How often each failure was met, by its signature."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """The smallest failure of each signature, by that."""
    left: int = 0
    """Seeds that were asked for and have no row."""
    damaged: int = 0
    """Files of rows that could not be read."""
