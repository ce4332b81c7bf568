"""The commands of the pipeline, as the program takes them in, and what is drawn for the commands of others."""

import typer

from ..scenarios.cli.drawing import draw_with
from .analysis.command import analyze
from .audit.command import audit
from .html.pages import ReportPages
from .latency.command import latency
from .recovery_time.command import recovery
from .sweep.command import sweep
from .topics.command import topics


def register(app: typer.Typer) -> None:
    """Add these commands to the program, and have it draw with this package."""
    draw_with(ReportPages())
    for command in (sweep, analyze, audit):
        app.command(name=command.__name__.rstrip("_"))(command)
    plot = typer.Typer(no_args_is_help=True, help="Draw pictures, and leave their data beside them.")
    for picture in (latency, topics, recovery):
        plot.command()(picture)
    app.add_typer(plot, name="plot")
