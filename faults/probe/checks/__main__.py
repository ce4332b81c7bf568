"""`python -m tornlog.faults.probe.checks`: one judgement, in a process that can be recorded as a program is.

    CHECK PROMISES                    a Python check judges the working directory
    PLACE PROMISES SECONDS COMMAND    a server is started in PLACE, judges the working directory, and is stopped

PROMISES is a file with a JSON list. The verdict is ignored: only the recorded calls count.
"""

import json
import os
import sys
from pathlib import Path

from .check import BROKEN, HELD, load_check


def judge(check: str, promises: str) -> None:
    """Call a check, and take all that it yields."""
    list(load_check(Path(check))(Path.cwd(), json.loads(Path(promises).read_text())) or ())


def ask(place: str, promises: str, seconds_max: str, command: str) -> None:
    """Ask a server once. The exit code is 1 if it does not answer."""
    from ..record import FILES  # the record of a Python check shall not have the imports of a server
    from .command import CheckServer

    root = Path(str(Path.cwd()).removesuffix(FILES))
    os.chdir(place)
    server = CheckServer(command)
    verdict = server.judge(root, json.loads(Path(promises).read_text()), float(seconds_max))
    server.dismiss()
    sys.exit(verdict.outcome not in (HELD, BROKEN))


if __name__ == "__main__":
    (judge if len(sys.argv) == 3 else ask)(*sys.argv[1:])
