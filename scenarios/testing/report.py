"""The report of a test session, in a line for the terminal and as a document.

The document, DIR/report.json: `{"format": "tornlog-pytest/1", "tests": [{"id", "scenario" or null, "seeds",
"time_up", "crash_points", "injected": {fault: times}, "never_injected": [faults], "signature" or null, "failure":
path or null, "again": command or null}]}`. It has no times in it and tests stand in the order of their ids, so it is
the same wherever and in whatever order they ran.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FORMAT = "tornlog-pytest/1"
_MOST = 5
"""Faults that the summary names."""


def summary_of(facts: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was run, how often it crashed, the injected faults, what broke; behind it what never happened."""
    injected: Counter[str] = Counter()
    for one in facts:
        injected.update(one["injected"])
    most = ", ".join(f"{kind} {times:,}" for kind, times in injected.most_common(_MOST))
    broken = sum(one["signature"] is not None for one in facts)
    parts = [
        _counted(len(facts), "test"),
        _counted(sum(one["seeds"] for one in facts), "seed"),
        _counted(sum(one["crash_points"] for one in facts), "crash point"),
        f"{_counted(injected.total(), 'fault')} injected" + (f" ({most})" if most else ""),
    ]
    if any(one["time_up"] for one in facts):
        parts.append(f"time was up in {_counted(sum(one['time_up'] for one in facts), 'test')}")
    if broken:
        parts.append(f"{broken} broken")
    silent = dict.fromkeys(name for one in facts for name in one["never_injected"])
    never = [name for name in silent if not injected[name] and name != "crash"]
    return [", ".join(parts), *([f"never injected in any test: {', '.join(never)}"] if never else [])]


def write_report(facts: Iterable[dict[str, Any]], out: Path) -> None:
    """Write the document."""
    document = {"format": FORMAT, "tests": sorted(facts, key=lambda one: str(one["id"]))}
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(document, indent=1) + "\n")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
