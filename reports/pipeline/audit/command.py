"""The command that audits a store directory on Spark.

JSON, version 2: `{"format": "tornlog-audit/2", "place", "records", "log_bytes", "entries", "index_entries",
"violations", "notes", "by_promise": {promise: violations}, "found": [{"promise", "file", "position", "field",
"expected", "found", "is_explained"}], "seconds"}`. Promises are those of `tornlog verify`; notes are what an unclean
exit explains; records are whole ones. found has as many rows as --limit says, those of violations first and some of
each promise; --out leaves all of them as Parquet.
"""

from time import perf_counter
from typing import Annotated, Any

import typer

from ...cli.console import OUT, progress_shown
from ...cli.options import EXIT_BROKEN, EXIT_HELD, JsonFile, write_json
from ..spark.options import Conf, Master, Ship, absolute, session_for


def audit(
    place: Annotated[str, typer.Argument(metavar="DIR", help="A store directory, or its URI.")],
    master: Master = "local[*]",
    ship: Ship = None,
    conf: Conf = None,
    commit_log: Annotated[
        str, typer.Option(help="Where the log is if not in DIR/commitlog: paths separated by commas.")
    ] = "",
    delay_levels: Annotated[
        str | None, typer.Option(help="messageDelayLevel; without it each level's usual delay counts.")
    ] = None,
    hash_slots: Annotated[int | None, typer.Option(min=1, help="maxHashSlotNum, if files don't say.")] = None,
    index_entries: Annotated[int | None, typer.Option(min=1, help="maxIndexNum, if files don't say.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many findings are shown.")] = 50,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Leave all findings there, as Parquet.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Hold the log, the queues and the index of a store of any size against each other, and say what does not fit."""
    geometry = {"hashSlots": hash_slots, "indexEntries": index_entries}
    given = {"commitLog": commit_log, "delayLevels": delay_levels, **geometry}
    options = {name: str(value) for name, value in given.items() if value}
    began, place = perf_counter(), absolute(place)
    with session_for(master, ship, conf) as spark:
        from .audit import audit as run_audit

        with progress_shown("auditing"):
            try:
                found = run_audit(spark, place, options)
            except FileNotFoundError as error:
                raise typer.BadParameter(str(error), param_hint="DIR") from error
            if out is not None:
                found.found.write.mode("overwrite").parquet(absolute(out))
            rows = [row.asDict() for row in found.first(limit)]
            sums = sorted(found.found.groupBy("promise", "is_explained").count().collect())
    broken = {row.promise: row["count"] for row in sums if not row.is_explained}
    document = {
        "format": "tornlog-audit/2",
        "place": place,
        "records": found.records,
        "log_bytes": found.log_bytes,
        "entries": found.entries,
        "index_entries": found.index_entries,
        "violations": sum(broken.values()),
        "notes": sum(row["count"] for row in sums if row.is_explained),
        "by_promise": broken,
        "found": rows,
        "seconds": round(perf_counter() - began, 3),
    }
    write_json(json_file, document)
    if json_file != "-":
        _print_result(document)
    raise typer.Exit(EXIT_BROKEN if document["violations"] else EXIT_HELD)


def _print_result(document: dict[str, Any]) -> None:
    OUT.print(
        f"{document['records']:,} records in {document['log_bytes']:,} bytes, {document['entries']:,} queue entries,"
        f" {document['index_entries']:,} index entries: {document['violations']:,} violations,"
        f" {document['notes']:,} notes, {document['seconds']:.1f} s",
        soft_wrap=True,
    )
    for row in document["found"]:
        promise = f"({row['promise']})" if row["is_explained"] else row["promise"]
        where = f"{row['file'].removeprefix(document['place']).lstrip('/')} @ {row['position']}"
        text = f"{promise} {where}: {row['field']}: expected {row['expected']}, found {row['found']}"
        OUT.print(text, soft_wrap=True, markup=False, highlight=False)
    more = document["violations"] + document["notes"] - len(document["found"])
    if more:
        OUT.print(f"and {more:,} more: --limit shows them, --out leaves all")
    if document["notes"]:
        OUT.print("(in brackets: what the unclean exit explains, and recovery mends)")
