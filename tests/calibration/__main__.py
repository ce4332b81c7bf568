"""`python -m tests.calibration [PROGRAM...]`: what each setting of known programs promises, beside what probing finds.

Ends with 1 if they disagree, or a program cannot be recorded; a program that is not installed is named.
"""

from typing import Annotated

import typer
from rich.table import Table

from tornlog.faults.probe.programs import ProgramError
from tornlog.reports.cli.console import OUT, plain_table, print_error

from .calibrated import DISKS, CalibratedProgram, Calibration, NotInstalled, calibrate
from .settings import PROGRAMS


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Of these programs alone.", show_default=False)] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that check.")] = 1,
) -> None:
    """Probe every setting of every program that is here, and print expected against found."""
    by_name = {program.name: program for program in PROGRAMS}
    unknown = [name for name in names or () if name not in by_name]
    if unknown:
        raise typer.BadParameter(f"expected some of {', '.join(by_name)}, found {', '.join(unknown)}")
    table = plain_table("calibration", ("program", "setting", *DISKS, "agrees"), ("steps", "checked", "seconds"))
    failures, notes = [], []
    for program in (by_name[name] for name in names or by_name):
        try:
            failures += _calibrate(program, jobs, table)
        except NotInstalled as missing:
            notes.append(f"not calibrated: {program.name}: {missing}")
    OUT.print(table)
    for note in notes:
        OUT.print(note, soft_wrap=True)
    for failure in failures:
        print_error(failure)
    raise typer.Exit(1 if failures else 0)


def _calibrate(program: CalibratedProgram, jobs: int, table: Table) -> list[str]:
    """Add a program's rows to a table; return what disagrees. NotInstalled: it is not here."""
    command = program.command()
    failures = []
    for setting in program.settings:
        try:
            found = calibrate(command, setting, jobs)
        except (ProgramError, RuntimeError) as error:
            table.add_row(program.name, setting.name, "", "", "", "not recorded", "", "", "")
            failures.append(f"{program.name} {setting.name}: {error}")
            continue
        cells = [_cell(found, disk) for disk in DISKS]
        agrees = "yes" if found.agrees else "no"
        facts = (f"{len(found.record.steps)}", f"{found.report.judged:,}", f"{found.seconds:.1f}")
        table.add_row(program.name, setting.name, *cells, agrees, *facts)
        if not found.agrees:
            expected = "; ".join(f"{disk}: {what}" for disk, what in setting.expected.items())
            failures.append(f"{program.name} {setting.name}: expected {expected}")
            failures += [f"    found {breach}" for breach in found.breaches]
    return failures


def _cell(found: Calibration, disk: str) -> str:
    """Return what is broken of what was tried on a disk, and how."""
    count = found.report.counts[disk]
    kinds = " ".join(sorted(found.found[disk]))
    return f"{count.broken:,}/{count.states:,} {kinds}".rstrip()


if __name__ == "__main__":
    typer.run(main)
