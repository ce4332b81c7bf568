"""The soak command."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click
import typer
from rich.text import Text

from tests.bench.broker import ProcessError
from tornlog.reports.cli.console import ERR, OUT, plain_table, show_progress
from tornlog.reports.cli.options import EXIT_BROKEN, EXIT_HELD, JsonFile, write_json
from tornlog.scenarios.campaigns.amounts import parse_seconds

from .hostile import KIND_NAMES
from .soak import Soak, run_soak


def soak(
    time: Annotated[str, typer.Option("--time", help="How long, such as 60s or 10m.")] = "60s",
    idle: Annotated[int, typer.Option(min=0, help="Idle connections to hold.")] = 10_000,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help="Serve a store below DIR, not in /tmp.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            click_type=click.Choice(KIND_NAMES),
            help="A kind of hostile clients, which is there alone; may be repeated.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure whether hostile clients slow down a broker's honest clients, or leave connections or memory behind."""
    seconds = parse_seconds(time)
    place = None if directory is None else str(directory.resolve())
    with tempfile.TemporaryDirectory(prefix="tornlog-soak-", dir=place) as root, show_progress() as update:
        try:
            found = run_soak(root, seconds, idle, lambda phase: update(description=phase), only or ())
        except ProcessError as error:
            ERR.print(f"soak: {error}", soft_wrap=True)
            raise typer.Exit(EXIT_BROKEN) from error
    verdicts = found.verdicts()
    write_json(json_file, _document(found, seconds))
    if json_file != "-":
        table = plain_table(f"a soak of {seconds:.0f} s", ("what has to hold", "held", "what was seen"), ())
        for verdict in verdicts:
            word = Text("yes") if verdict.held else Text("no", style="red")
            table.add_row(verdict.name, word, verdict.detail)
        OUT.print(table)
    raise typer.Exit(EXIT_HELD if all(verdict.held for verdict in verdicts) else EXIT_BROKEN)


def _document(found: Soak, seconds: float) -> dict[str, object]:
    return {
        "format": "tornlog-soak/1",
        "seconds": seconds,
        "verdicts": [asdict(verdict) for verdict in found.verdicts()],
        "undisturbed": [{kind: asdict(result) for kind, result in results.items()} for results in found.undisturbed],
        "beside": {kind: asdict(result) for kind, result in found.beside.items()},
        "disturbed": {kind: asdict(result) for kind, result in found.disturbed.items()},
        "growth": found.growth,
        "resident_bytes": found.resident_bytes,
        "hostile": {name: asdict(tally) for name, tally in found.hostile.items()},
        "connections_max": found.connections_max,
        "left": dict(found.left),
        "counts": found.stopped.get("counts"),
    }
