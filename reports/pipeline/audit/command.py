"""The command `audit`: verifies a store directory on Spark."""

from time import perf_counter
from typing import Annotated, Any

import typer

from ...cli.console import OUT, show_progress
from ...cli.options import (
    EXIT_BROKEN,
    EXIT_HELD,
    Conf,
    JsonFile,
    Master,
    ResultFiles,
    Ship,
    results_written,
    write_json,
)
from ..spark.options import engine_for, place_of

_EXIT_UNREADABLE = 3


def audit(
    place: Annotated[str, typer.Argument(metavar="DIR", help="A store directory, or its URI.")],
    master: Master = "local[*]",
    ship: Ship = None,
    conf: Conf = None,
    commit_log: Annotated[
        str, typer.Option(metavar="PATHS", help="Paths of the log, separated by commas, if it is not in DIR/commitlog.")
    ] = "",
    delay_levels: Annotated[str | None, typer.Option(help="messageDelayLevel, if the files do not show it.")] = None,
    hash_slots: Annotated[int | None, typer.Option(min=1, help="maxHashSlotNum, if the files do not show it.")] = None,
    index_entries: Annotated[int | None, typer.Option(min=2, help="maxIndexNum, if the files do not show it.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of violations to show.")] = 50,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help="Directory or URI for all violations, as Parquet.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Verify a store of any size on any file system, with Spark."""
    from ....store.tools.geometry import Geometry

    geometry = Geometry(
        commit_log_paths=commit_log, delay_levels=delay_levels, hash_slots=hash_slots, index_entries=index_entries
    )
    began, place = perf_counter(), place_of(place, "DIR")
    out = None if out is None else place_of(out, "--out")
    with engine_for(master, ship, conf) as engine:
        from .audit import audit as run_audit
        from .audit import fields_of_violation, select_violations, write_violations

        with show_progress("auditing"):
            try:
                found = run_audit(engine, place, geometry)
            except FileNotFoundError as error:
                raise typer.BadParameter(str(error), param_hint="DIR") from error
            except OSError as error:
                typer.echo(f"{error.filename or place}: {error.strerror or error}", err=True)
                raise typer.Exit(_EXIT_UNREADABLE) from None
            violations = found.findings.violations
            files = ResultFiles()
            if out is not None:
                with files.writing(), results_written("--out"):
                    write_violations(violations, out)
    by_promise: dict[str, int] = {}
    for violation in violations:
        by_promise[violation.promise.value] = by_promise.get(violation.promise.value, 0) + 1
    document = {
        **found.fields(),
        "format": "tornlog-audit/3",
        "place": place,
        "violations": [fields_of_violation(violation) for violation in select_violations(violations, limit)],
        "by_promise": by_promise,
        "seconds": round(perf_counter() - began, 3),
    }
    with files.writing():
        write_json(json_file, document)
    if json_file != "-":
        _print_result(document, [str(violation) for violation in select_violations(violations, limit)])
    files.exit(EXIT_BROKEN if violations else EXIT_HELD)


def _print_result(document: dict[str, Any], lines: list[str]) -> None:
    counts, violations = document["counts"], sum(document["by_promise"].values())
    OUT.print(
        f"{counts['records']:,} records in {counts['recordBytes']:,} bytes, {counts['entries']:,} queue entries,"
        f" {counts['indexEntries']:,} index entries: {violations:,} violations,"
        f" {len(document['notes']):,} notes, {document['seconds']:.1f} s",
        soft_wrap=True,
    )
    for line in [*lines, *(f"note: {note}" for note in document["notes"])]:
        OUT.print(line, soft_wrap=True, markup=False, highlight=False)
    if violations > len(lines):
        OUT.print(f"and {violations - len(lines):,} more: --limit shows more, --out writes all")
