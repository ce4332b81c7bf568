"""The commands that run scenarios, as the program takes them in."""

import typer

from .cli.bench import bench
from .cli.determinism import determinism
from .cli.explore import explore
from .cli.fuzz import fuzz
from .cli.listing import list_
from .cli.mutants import mutants
from .cli.probe import probe
from .cli.replays import replay_, shrink
from .cli.run import run
from .cli.search import search


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (run, list_, replay_, shrink, explore, search, fuzz, mutants, probe, determinism, bench):
        app.command(name=command.__name__.rstrip("_"))(command)
