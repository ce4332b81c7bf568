"""The command `list`: prints the names that other commands accept."""

from typing import Annotated

import typer

from .options import JsonFile, require_known_name

SECTIONS = (
    *("scenarios", "invariants", "faults", "disks", "promises"),
    *("crashes", "damage", "marks", "policies", "mutants", "versions"),
)


def list_(
    section: Annotated[
        str | None,
        typer.Argument(metavar="[SECTION]", help=f"One of {', '.join(SECTIONS)}.", autocompletion=lambda: [*SECTIONS]),
    ] = None,
    word: Annotated[
        str | None, typer.Argument(metavar="[WORD]", help="Part of a name or its meaning; case is ignored.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """List scenarios, faults, disks, policies, mutants and other names."""
    if section is not None:
        require_known_name(SECTIONS, section, "SECTION")
    from .names import print_names

    print_names(SECTIONS if section is None else (section,), word or "", json_file)
