"""`python -m tornlog.faults.probe.checks`: runs a check once, as a program that can be recorded.

    CHECK PROMISES                      a Python check judges the working directory
    PLACE PROMISES SECONDS KIND NAME    a check of another kind starts in PLACE, judges the working directory, and ends

PROMISES is a file with a JSON list. Only the recorded calls are used, not the verdict.
"""

import json
import os
import sys
from pathlib import Path

from .check import BROKEN, HELD, load_check


def judge(check: str, promises: str) -> None:
    """Run the function of a Python check, and consume all violations that it yields."""
    list(load_check(Path(check))(Path.cwd(), json.loads(Path(promises).read_text())) or ())


def ask(place: str, promises: str, seconds_max: str, kind: str, name: str) -> None:
    """Run a check of another kind once. The exit code is 1 if the check has no verdict."""
    from ..record import (
        FILES,
    )  # imported here, so that the record of a Python check does not have the imports of other kinds
    from .kinds import CHECK_KINDS

    root = Path(str(Path.cwd()).removesuffix(FILES))
    os.chdir(place)
    check = CHECK_KINDS[kind].make(name)
    verdict = check.judge(root, json.loads(Path(promises).read_text()), float(seconds_max))
    check.dismiss()
    sys.exit(verdict.outcome not in (HELD, BROKEN))


if __name__ == "__main__":
    (judge if len(sys.argv) == 3 else ask)(*sys.argv[1:])
