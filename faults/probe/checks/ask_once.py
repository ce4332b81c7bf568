"""`python -m tornlog.faults.probe.checks.ask_once PLACE PROMISES SECONDS COMMAND`: a server is asked one question.

So the recovery of a check that stays up can be recorded as a program is. The server is started in PLACE, is asked about
the working directory, may end by itself once it has answered, and is ended if it does not. PROMISES is a JSON list.
"""

import json
import os
import sys
from pathlib import Path

from ..record import FILES
from .check import BROKEN, HELD
from .command import CheckServer


def main() -> None:
    """Ask it. What it says is of no interest, as long as it says anything: else this ends with 1."""
    place, promises, seconds_max, command = sys.argv[1:]
    root = Path(str(Path.cwd()).removesuffix(FILES))
    os.chdir(place)
    server = CheckServer(command)
    verdict = server.judge(root, json.loads(Path(promises).read_text()), float(seconds_max))
    server.dismiss()
    sys.exit(verdict.outcome not in (HELD, BROKEN))


if __name__ == "__main__":
    main()
