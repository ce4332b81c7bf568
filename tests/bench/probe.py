"""Cost of a verdict: `tornlog probe` of SQLite in WAL mode with `synchronous=FULL`, on all default disks.

Each figure is the processor time of all processes, from the start of the command to its verdict, on one processor. The
check opens the database, as the next user would, and counts the rows. The empty check shows the cost of the states
alone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tornlog.reports.studies.closed_loop import Sample

from .figure import cpu_seconds_spent
from .recorder import one_processor
from .workplace import Workplace

_PROGRAM = """
import sqlite3, sys
database = sqlite3.connect("rows", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL").fetchall()
database.execute("PRAGMA synchronous=FULL")
database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, value BLOB)")
for number in range(int(sys.argv[1])):
    database.execute("BEGIN")
    database.execute("INSERT INTO rows VALUES (?, ?)", (number, b"x" * 100))
    database.execute("COMMIT")
    print(number, flush=True)
"""
_COUNT_ROWS = """
import sqlite3
from contextlib import closing
def check(directory, acknowledged):
    with closing(sqlite3.connect(directory / "rows")) as database:
        found = database.execute("SELECT count(*) FROM rows").fetchone()[0] if acknowledged else 0
    if found < len(acknowledged):
        yield f"{len(acknowledged)} rows were acknowledged, found {found}"
"""
_EMPTY = "def check(directory, acknowledged): pass\n"
_TRANSACTIONS, _TRANSACTIONS_OF_EMPTY = 100, 30
"""Number of transactions in a round of one second."""


class _Verdict(NamedTuple):
    states: int
    cpu_seconds: float


def measure_verdict(place: Workplace) -> Sample:
    """Return the seconds of processor time from the program to the verdict."""
    return Sample(_probe(place, _COUNT_ROWS, _TRANSACTIONS).cpu_seconds)


def measure_empty_check(place: Workplace) -> Sample:
    """Return the number of states per second of processor time with an empty check."""
    verdict = _probe(place, _EMPTY, _TRANSACTIONS_OF_EMPTY)
    return Sample(verdict.states / verdict.cpu_seconds)


def _probe(place: Workplace, check: str, transactions: int) -> _Verdict:
    count = max(1, int(transactions * place.settings.seconds))
    with place.directory() as directory, one_processor():
        Path(directory, "check.py").write_text(check)
        Path(directory, "program.py").write_text(_PROGRAM)
        options = ["--record", "calls", "--no-corpus", "--check", "check.py", "--json", "verdict.json"]
        command = [sys.executable, "-P", "-m", "tornlog", "probe", *options, "--", "program.py", str(count)]
        environment = {**os.environ, "TMPDIR": directory, "PYTHONPATH": os.pathsep.join(sys.path)}
        before = cpu_seconds_spent()
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        cpu_seconds = cpu_seconds_spent() - before
        if done.returncode:
            raise RuntimeError(f"the probe has ended with {done.returncode}: {done.stdout.strip()[-500:]}")
        return _Verdict(json.loads(Path(directory, "verdict.json").read_text())["states"], cpu_seconds)
