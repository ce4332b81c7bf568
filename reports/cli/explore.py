"""The command that explores: every crash of one run, and every state that each may leave; or its schedules.

JSON, version 1: `{"format": "tornlog-explore/1", "scenario", "seed", "disk", "mutant", "limit", "heal", "exhaustive",
"moments", "crashes", "crashes_exhausted", "crashes_cut", "states", "images", "judgements", "judged", "violations",
"depths": [{"situations", "operations"}], "kinds": [{"depth", "kind", "moments", "crashes", "exhausted", "cut",
"states", "judged", "violations"}], "failures": [{"signature", "file"}], "interrupted", "seconds",
"states_per_second"}`.

states: that were built; images: different ones; judgements: different pairs of an image and what had been promised;
judged: how many were recovered and judged, which is more than that only with several processes.

JSON of --schedules, version 1: `{"format": "tornlog-schedules/1", "kind", "bound", "scenario", "seed", "summary",
"schedules", "schedules_by_cost": [numbers], "is_complete", "violated", "first_violated", "first_schedule",
"last_schedule", "failures": [paths], "seconds", "interrupted"}`. interrupted: true or false.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import AttributePoints, Jobs, JsonFile, Mutant, complete_disk, complete_scenario


@dataclass(frozen=True)
class ExploreOptions:
    """Pull the plug at every operation of one run, and judge every state that may be left.

    With --schedules: run it under every schedule with few delays or preemptions instead, and count them.
    """

    context: typer.Context
    name: Annotated[str, typer.Argument(help="A scenario.", autocompletion=complete_scenario)]
    seed: Annotated[int, typer.Option(help="The seed whose first life is explored.")] = 0
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="States of one crash, 256 unless given (4 of several machines)."),
    ] = None
    disk: Annotated[str | None, typer.Option(help="One disk only; see `list`.", autocompletion=complete_disk)] = None
    messages: Annotated[int | None, typer.Option(min=1, help="Of each producer, instead of what the seed draws.")] = (
        None
    )
    nest: Annotated[int, typer.Option(min=0, max=8, help="Crashes inside recovery, this deep, of some states.")] = 0
    heal: Annotated[bool, typer.Option(help="Use each recovered store as the end of a run does.")] = False
    mutant: Mutant = None
    jobs: Jobs = 1
    schedules: Annotated[
        bool, typer.Option("--schedules", help="Every schedule of the run in place of every crash.")
    ] = False
    delays: Annotated[int | None, typer.Option(min=0, help="Schedules with up to N delays; 1 if neither.")] = None
    preemptions: Annotated[int | None, typer.Option(min=0, help="Schedules with up to N preemptions.")] = None
    attribute_points: AttributePoints = False
    after: Annotated[str | None, typer.Option(help="Go on behind the schedule of that name.")] = None
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="End with the first schedule that breaks a promise.")
    ] = False
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Leave failures in DIR/failures.")] = None
    json_file: JsonFile = None
