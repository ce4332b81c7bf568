"""`python -m tornlog.faults.probe.checks`: runs a check once, as a program that can be recorded.

    CHECK ANSWERS                      a Python check judges the working directory
    PLACE ANSWERS SECONDS KIND NAME    a check of another kind starts in PLACE, judges the working directory, and ends

ANSWERS is a file with two JSON lists: promises and refusals. The recorder uses the calls of the check and ignores its
verdict.
"""

import json
import os
import sys
from pathlib import Path

from ..record import FILES, Answers
from .check import BROKEN, HELD, call_check, load_check, takes_refusals


def judge(check: str, answers: str) -> None:
    """Run the function of a Python check to the end of its generator."""
    function = load_check(Path(check))
    list(call_check(function, Path.cwd(), _read_answers(answers), with_refusals=takes_refusals(function)) or ())


def ask(place: str, answers: str, seconds_max: str, kind: str, name: str) -> None:
    """Run a check of another kind once. The exit code is 1 if the check has no verdict."""
    # a module-level import would add the files of other kinds to the record of a Python check
    from .command import CHECK_KINDS

    root = Path(str(Path.cwd()).removesuffix(FILES))
    given = _read_answers(answers)
    os.chdir(place)
    check = CHECK_KINDS[kind].make(name)
    verdict = check.judge(root, given, float(seconds_max))
    check.end_processes()
    sys.exit(verdict.outcome not in (HELD, BROKEN))


def _read_answers(file: str) -> Answers:
    return Answers(*json.loads(Path(file).read_text()))


if __name__ == "__main__":
    (judge if len(sys.argv) == 3 else ask)(*sys.argv[1:])
