"""The commands that run scenarios, as the program takes them in."""

import typer

from .cli.bench import bench
from .cli.compare import compare
from .cli.determinism import determinism
from .cli.explore import explore
from .cli.fuzz import fuzz
from .cli.listing import list_
from .cli.mutants import mutants
from .cli.probe import probe
from .cli.replays import replay_, shrink
from .cli.run import run
from .cli.search import search
from .cli.soak import soak


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    commands = (
        run,
        list_,
        replay_,
        shrink,
        explore,
        search,
        fuzz,
        mutants,
        probe,
        determinism,
        compare,
        bench,
        soak,
    )
    for command in commands:
        app.command(name=command.__name__.rstrip("_"))(command)
