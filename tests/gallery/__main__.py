"""`python -m tests.gallery [NAME...]`: compares the promises of known programs with probes.

--write stores the results in `docs/gallery/NAME/result.json`, from which the site builds its table. The exit code is 1
if a setting disagrees, cannot be recorded, or a finding is not confirmed. The output names programs that are not
installed.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tornlog.faults.probe.programs import ProgramError
from tornlog.reports.cli.console import OUT, plain_table, print_error

from .confirm import confirm
from .install import InstalledProgram, NotInstalled, install
from .measure import Measurement, measure
from .results import RowResult, Runs, read_result, write_result
from .rows import DISKS, Row, all_rows

_OUT = Path("out", "gallery")


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Of these folders alone.", show_default=False)] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that check.")] = 1,
    apt: Annotated[bool, typer.Option("--apt", help="Install packages of the system that are missing.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Leave what is found beside the programs.")] = False,
    confirmations: Annotated[
        bool, typer.Option("--confirm", help="Only run the scripts that show findings without tornlog.")
    ] = False,
) -> None:
    """Probe every setting of the installed programs, and print expected and found outcomes."""
    rows = _selected_rows(names or [])
    failures, notes = [], []
    table = plain_table("gallery", ("program", "setting", *DISKS, "agrees"), ("steps", "checked", "seconds"))
    for row in rows:
        try:
            program = install(row, by_apt=apt)
        except NotInstalled as missing:
            notes.append(f"not measured: {row.name}: {missing}")
            continue
        if confirmations:
            failures += _confirm(row, program, write=write)
        else:
            failures += _measure(row, program, jobs, table, write=write)
    if not confirmations:
        OUT.print(table)
    for note in notes:
        OUT.print(note, soft_wrap=True, markup=False)
    for failure in failures:
        print_error(failure)
    raise typer.Exit(1 if failures else 0)


def _selected_rows(names: list[str]) -> list[Row]:
    by_name = {row.name: row for row in all_rows()}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise typer.BadParameter(f"expected some of {', '.join(by_name)}, found {', '.join(unknown)}")
    return [by_name[name] for name in names or by_name]


def _measure(row: Row, program: InstalledProgram, jobs: int, table: Table, *, write: bool) -> list[str]:
    """Measure a program, and add its rows to a table; return the disagreements."""
    failures: list[str] = []
    measured: list[Measurement] = []
    for setting in row.settings:
        try:
            found = measure(row, program, setting, jobs, _OUT / row.name / setting.name.replace(" ", "-"))
        except (ProgramError, RuntimeError) as error:
            table.add_row(row.name, setting.name, "", "", "", "not recorded", "", "", "")
            failures.append(f"{row.name} {setting.name}: {error}")
            continue
        measured.append(found)
        agrees = "yes" if found.agrees else "no"
        facts = (f"{len(found.record.steps)}", f"{found.report.judged:,}", f"{found.seconds:.1f}")
        table.add_row(row.name, setting.name, *(_cell(found, disk) for disk in DISKS), agrees, *facts)
        if not found.agrees:
            expected = "; ".join(f"{disk}: {setting.expected(disk)}" for disk in DISKS)
            failures.append(f"{row.name} {setting.name}: expected {expected}")
            failures += [f"    found {breach}" for breach in found.breaches]
    if write and not failures:
        before = read_result(row)
        confirmed = before.confirmed if before is not None else {}
        write_result(row, RowResult.of(row, program.version(), measured, confirmed))
    return failures


def _cell(found: Measurement, disk: str) -> str:
    """Return a cell with the broken and tried states on a disk, and the kinds of breach."""
    count = found.report.counts[disk]
    kinds = " ".join(sorted(found.found[disk]))
    return f"{count.broken:,}/{count.states:,} {kinds}".rstrip()


def _confirm(row: Row, program: InstalledProgram, *, write: bool) -> list[str]:
    """Run the confirming scripts of a row; return those that did not confirm the finding."""
    runs: Runs = {finding.confirm: confirm(row, finding, program) for finding in row.findings if finding.confirm}
    for script, run in runs.items():
        OUT.print(f"{row.name}/{script}: {run.outcome}", soft_wrap=True, markup=False)
        for line in run.said:
            OUT.print(f"    {line}", soft_wrap=True, markup=False)
    result = read_result(row)
    if write and result is not None:
        write_result(row, result.with_confirmed(runs))
    return [f"{row.name}/{script}: not confirmed" for script, run in runs.items() if run.outcome == "not confirmed"]


if __name__ == "__main__":
    typer.run(main)
