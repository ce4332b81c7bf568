"""The commands of the pipeline, as the program takes them in."""

import typer

from .analysis.command import analyze
from .audit.command import audit
from .latency.command import latency
from .sweep.command import sweep


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (sweep, analyze, audit):
        app.command(name=command.__name__.rstrip("_"))(command)
    plot = typer.Typer(no_args_is_help=True, help="Draw pictures, and leave their data beside them.")
    plot.command()(latency)
    app.add_typer(plot, name="plot")
