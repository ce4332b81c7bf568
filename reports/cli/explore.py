"""Options of `explore`, which tries every crash or every schedule of one run."""

from dataclasses import dataclass
from pathlib import Path

import typer

from .options import AttributePoints, Jobs, JsonFile, Mutant, argument, complete_disk, complete_scenario, option


@dataclass(frozen=True)
class ExploreOptions:
    """Crash one run at every file operation, and check every state.

    With --schedules: run it under every schedule with few delays or preemptions instead, and count them.
    """

    context: typer.Context
    name: str = argument(..., metavar="SCENARIO", help="A scenario.", autocompletion=complete_scenario)
    seed: int = option(0, help="Seed of the run. Its first life is explored.")
    limit: int | None = option(
        None, min=1, help="Maximum number of states per crash. Default: 256, or 4 with several machines."
    )
    disk: str | None = option(None, help="Use only this disk; see `list`.", autocompletion=complete_disk)
    messages: int | None = option(None, min=1, help="Messages per producer, instead of the drawn number.")
    nest: int = option(0, min=0, max=8, help="Also crash the recovery of some states, and its recovery, to this depth.")
    heal: bool = option(
        False, "--heal", help="Also check that each recovered store works after the faults have stopped."
    )
    mutant: Mutant = None
    jobs: Jobs = 1
    schedules: bool = option(False, "--schedules", help="Explore schedules instead of crashes.")
    delays: int | None = option(None, min=0, help="Schedules with up to N delays. Default: 1.")
    preemptions: int | None = option(None, min=0, help="Schedules with up to N preemptions.")
    attribute_points: AttributePoints = False
    after: str | None = option(None, metavar="NAME", help="Continue after the schedule with this name.")
    stop_at_first: bool = option(False, "--stop-at-first", help="Stop at the first schedule that breaks a promise.")
    out: Path | None = option(None, file_okay=False, help="Write failures to DIR/failures.")
    json_file: JsonFile = None
