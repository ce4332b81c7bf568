"""The commands of the pipeline, as the program takes them in."""

import typer

from .sweep.command import sweep


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (sweep,):
        app.command(name=command.__name__.rstrip("_"))(command)
