"""Arguments of the mark `tornlog`, and the command-line options that override them."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from ...faults.kinds import FAULTS
from ...faults.simulation.finding import Finding
from ..campaigns.amounts import parse_seconds, parse_seeds
from ..claims.ranges import Ranges

SEEDS = 100
CRASH = "crash"
"""A crash counts as a fault like the kinds in `faults.kinds`."""
NEVER_INJECTED = ("ignore", "warn", "fail")


class WrongMark(ValueError):
    """Invalid arguments of a mark."""


@dataclass(frozen=True, slots=True)
class MarkArguments:
    """The arguments of the mark `tornlog`."""

    seeds: int | str = SEEDS
    """N for the seeds 0 to N - 1, or "A:B" for the seeds A to B - 1."""
    shrink: bool = True
    must_inject: Sequence[str] = ()
    """Faults or `crash`. The test fails if one of these faults happens in no seed."""
    never_injected: str = "warn"
    """The reaction to enabled faults that never happen: one of NEVER_INJECTED."""
    scenario: str | None = None
    """A tornlog scenario. The scenario's runs of tornlog's store replace the runs of the test function."""
    disk: str | None = None
    policy: str | None = None
    ranges: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `scenarios.claims.ranges.Ranges`: options for knobs of the scenario's plans."""
    mutant: str | None = None
    """A known bug that is applied during the test. A test that passes with this bug does not detect it."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.must_inject if name not in FAULTS and name != CRASH]
        if unknown:
            raise WrongMark(f"must_inject: no fault {', '.join(unknown)}; `tornlog list` names them")
        if self.never_injected not in NEVER_INJECTED:
            raise WrongMark(f"never_injected: expected one of {', '.join(NEVER_INJECTED)}, found {self.never_injected}")
        try:
            Ranges(**self.ranges)
        except ValueError as error:
            raise WrongMark(f"ranges: {error}") from error
        own = [name for name in ("disk", "policy", "ranges", "mutant") if getattr(self, name)]
        if self.scenario is None and own:
            raise WrongMark(f"{', '.join(own)}: expected only together with `scenario`")


def arguments_of_mark(mark: pytest.Mark | None) -> MarkArguments:
    """Return the arguments of a mark, or the defaults. Raises WrongMark."""
    if mark is None:
        return MarkArguments()
    try:
        return MarkArguments(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise WrongMark(str(error).replace("MarkArguments.__init__()", "the mark")) from error


@dataclass(frozen=True, slots=True)
class SeedBudget:
    """Seeds, time limit and output directory of a test."""

    seeds: range
    is_whole: bool
    """Whether there are as many seeds as in the mark. If a test runs fewer seeds, missing faults are not reported."""
    seconds: float | None
    out: Path | None
    """The directory as the user typed it, because the command that repeats a failure contains it."""
    replay: Path | None
    draw: Callable[..., Path | None]
    """The hook `pytest_tornlog_failure`."""


def seed_budget_of(config: pytest.Config, wanted: MarkArguments) -> SeedBudget:
    """Return the seeds of the command line, or those of the mark. Raises WrongMark."""
    try:
        own = parse_seeds(str(wanted.seeds), None)
    except typer.BadParameter as error:
        raise WrongMark(f"seeds: {error.message}") from error
    assert own is not None, "a mark names its seeds"
    given = _seeds_given(config)
    seeds = own if given is None else given
    time, out, replay = (config.getoption(f"--tornlog-{name}") for name in ("time", "out", "replay"))
    return SeedBudget(
        seeds,
        len(seeds) >= len(own),
        None if time is None else parse_seconds(time),
        None if out is None else Path(out),
        None if replay is None else config.invocation_params.dir / replay,
        config.hook.pytest_tornlog_failure,
    )


def check_options(config: pytest.Config) -> None:
    try:
        replay = seed_budget_of(config, MarkArguments()).replay
    except typer.BadParameter as error:
        where = str(error.param_hint).replace("--", "--tornlog-")
        raise pytest.UsageError(f"{where}: {error.message}") from error
    try:
        if replay is not None:
            Finding.from_json(replay.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise pytest.UsageError(f"--tornlog-replay: {replay}: {reason}") from error
    out = config.getoption("--tornlog-out")
    if out is not None:  # report an unusable directory before the seeds run
        place = config.invocation_params.dir / Path(out)
        try:
            place.mkdir(parents=True, exist_ok=True)
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise pytest.UsageError(f"--tornlog-out: {place}: {error.strerror}") from error


def _seeds_given(config: pytest.Config) -> range | None:
    seed = config.getoption("--tornlog-seed")
    try:
        number = None if seed is None else int(seed)
    except ValueError as error:
        raise typer.BadParameter(f"expected a number, found {seed}", param_hint="--seed") from error
    return parse_seeds(config.getoption("--tornlog-seeds"), number)
