"""`python -m tornlog.faults.probe.checks CHECK PROMISES`: have a Python check look at the working directory, once.

So a check can be recorded as a program is. PROMISES is a JSON list. What the check says is of no interest here.
"""

import json
import sys
from pathlib import Path

from .check import load_check


def main() -> None:
    """Call the check, and take all that it yields."""
    check, promises = sys.argv[1:]
    list(load_check(Path(check))(Path.cwd(), json.loads(Path(promises).read_text())) or ())


main()
