"""Record of the systematic mutants: found ones, those with a verdict, and those that did not run yet.

`python -m tests.mutation.record RESULT.json …` adds the found mutants of `tornlog mutants --json` to `found.txt`, then
prints a table by operator and the ids that did not run. The runs may be narrowed, or of shipped scenarios.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tornlog.scenarios.claims.catalogue import SCENARIOS

from . import selected_sites
from .operators import OPERATORS
from .survivors import SURVIVORS

FOUND_FILE = Path(__file__).with_name("found.txt")
"""One line per found mutant: id, number of seeds until the find, violated invariant.

A fourth word names the shipped scenario. Without it, the runs were narrowed.
"""
COLUMNS = ("found", "equivalent", "gap", "not run")


def found_mutants() -> dict[str, str]:
    """Return the find of each found mutant, by id."""
    lines = FOUND_FILE.read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def add_finds(results: Path) -> None:
    """Add the finds of a JSON file that `tornlog mutants` wrote."""
    found = found_mutants()
    for result in json.loads(results.read_text()):
        if result.get("found"):
            find = result["finds"][0]
            shipped = (find["scenario"],) if find["scenario"] in SCENARIOS else ()
            found[result["id"].partition(":")[2]] = " ".join((str(result["seeds"]), find["invariant"], *shipped))
    FOUND_FILE.write_text("".join(f"{name} {find}\n" for name, find in sorted(found.items())))


def verdict_of(name: str, found: Mapping[str, str]) -> str:
    """Return the column of a mutant."""
    if name in SURVIVORS:
        return SURVIVORS[name].partition(":")[0]
    return "found" if name in found else "not run"


def table_rows() -> Iterator[str]:
    """Yield a Markdown table of the selected mutants."""
    found, counts = found_mutants(), Counter[tuple[str, str]]()
    for site in selected_sites():
        verdict = verdict_of(site.id, found)
        counts[site.operator.name, verdict] += 1
        counts["all", verdict] += 1
    yield f"| operator | {' | '.join(COLUMNS)} |"
    yield f"| --- |{' --: |' * len(COLUMNS)}"
    for operator in (*OPERATORS, "all"):
        yield f"| {operator} | {' | '.join(str(counts[operator, column]) for column in COLUMNS)} |"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        add_finds(Path(argument))
    print(*table_rows(), sep="\n")
    known = found_mutants()
    print(*(site.id for site in selected_sites() if verdict_of(site.id, known) == "not run"), sep="\n")
