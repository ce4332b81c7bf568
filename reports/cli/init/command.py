"""The command `init`: runs a program once, and writes a check for it and a CI job.

`init` tries check templates. A template fits if it accepts the files that the program left, and reports missing
promises for an empty directory. Exit codes: 0 the files are written or existed before, 2 usage error.
"""

from dataclasses import dataclass
from pathlib import Path

from ..options import argument, option

DATABASE, LOG, KEY_VALUE, SERVER, PYTEST = "database", "log", "key-value", "server", "pytest"
KINDS = (DATABASE, LOG, KEY_VALUE, SERVER, PYTEST)
PORT = "{port}"
"""The word that stands for the port in a server's command line."""
PROGRAM_SECONDS = 60.0
"""Default time limit for the run of the program."""


@dataclass(frozen=True)
class InitOptions:
    """Write a check and a CI job for a program, as a start for `probe`.

    The program is run once, in a new empty directory. Existing files do not change.
    """

    program: list[str] | None = argument(
        None, help=f"After --: the program and its arguments; {PORT} stands for the port of a server."
    )
    kind: str = option(
        "",
        metavar="|".join(KINDS),
        help="Kind of program. Default: detected by a run; without a program, pytest in a directory with tests.",
    )
    out: Path = option(Path("."), file_okay=False, help="Write to this directory, the root of a project.")
    program_seconds: float = option(PROGRAM_SECONDS, min=0.1, help="Time limit of the program.")
