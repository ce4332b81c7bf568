"""The command `init`: runs a program once, and writes a check for it and a CI job.

`init` tries check templates. A template fits if it accepts the files that the program left, and reports missing
promises for an empty directory. Exit codes: 0 the files are written or existed before, 2 usage error.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

DATABASE, LOG, KEY_VALUE, SERVER, PYTEST = "database", "log", "key-value", "server", "pytest"
KINDS = (DATABASE, LOG, KEY_VALUE, SERVER, PYTEST)
PORT = "{port}"
"""The word that stands for the port in a server's command line."""
PROGRAM_SECONDS = 60.0
"""Default time limit for the run of the program."""


@dataclass(frozen=True)
class InitOptions:
    """Write a check and a CI job for a program, to begin with `probe`.

    The program is run once, in a new empty directory. Existing files are left as they are.
    """

    program: Annotated[
        list[str] | None,
        typer.Argument(help=f"After --: the program and its arguments; {PORT} stands for the port of a server."),
    ] = None
    kind: Annotated[
        str,
        typer.Option(
            metavar="|".join(KINDS),
            help="Kind of program. Default: found by a run; pytest without a program, in a directory with tests.",
        ),
    ] = ""
    out: Annotated[Path, typer.Option(file_okay=False, help="Write to this directory, the root of a project.")] = Path(
        "."
    )
    program_seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of the program.")] = PROGRAM_SECONDS
