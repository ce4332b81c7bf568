"""Test facts: collect the runs of a test, and write the report of a session."""

import hashlib
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os.path import relpath
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from ...faults.simulation.artefact import read_envelope
from ...faults.simulation.promises import is_promise
from ..campaigns.kept_files import keep_file
from .mark_arguments import CRASH, MarkArguments, SeedBudget

FORMAT = "tornlog-pytest/1"
_MOST = 5
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX, _DIGEST_BYTES = 80, 4


@dataclass(slots=True)
class SeedFacts:
    """The results of a test, summed over its seeds."""

    id: str
    """The test as an argument of pytest, relative to the directory in which pytest was started."""
    node: str
    """The test's name, relative to pytest's root directory."""
    command: str
    """The command that started pytest, without arguments."""
    scenario: str | None
    seeds: int = 0
    last_seed: int = -1
    """The last seed that was started; -1 if none was."""
    time_up: bool = False
    crash_points: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    enabled: dict[str, None] = field(default_factory=dict)
    """Faults that at least one seed enabled, in order of first use."""
    signature: str | None = None
    failure: str | None = None
    again: str | None = None

    def add(self, injected: dict[str, int], crash_points: int) -> None:
        self.seeds += 1
        self.crash_points += crash_points
        self.injected.update({name: times for name, times in injected.items() if not name.startswith(CRASH)})

    def enable(self, kinds: Iterable[str]) -> None:
        self.enabled.update(dict.fromkeys(kinds))

    def never_injected(self) -> list[str]:
        happened = self.injected | {CRASH: self.crash_points}
        return [name for name in self.enabled if not happened.get(name)]

    def seeds_of(self, campaign: SeedBudget) -> Iterator[int]:
        """Yield seeds until the time limit, at least one."""
        began = perf_counter()
        for seed in campaign.seeds:
            if campaign.seconds is not None and self.seeds and perf_counter() - began >= campaign.seconds:
                self.time_up = True
                return
            self.last_seed = seed
            yield seed

    def replay_command(self, *options: str) -> str:
        return f"{self.command} {shlex.join((self.id, *options))}"

    def write_failure(self, out: Path | None, text: str) -> Path | None:
        if out is None:
            return None
        path = out / "failures" / f"{file_name(self.id)}.json"
        keep_file(path, text)
        self.failure = str(path)
        return path

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without enums, because execnet (pytest-xdist) cannot transfer enums."""
        return {
            "id": self.id,
            "scenario": self.scenario,
            "seeds": self.seeds,
            "time_up": self.time_up,
            "crash_points": self.crash_points,
            "injected": {str(kind): self.injected[kind] for kind in sorted(self.injected)},
            "never_injected": [str(kind) for kind in self.never_injected()],
            "signature": self.signature,
            "failure": self.failure,
            "again": self.again,
        }


def facts_of(item: pytest.Function, wanted: MarkArguments) -> SeedFacts:
    return SeedFacts(test_id(item), item.nodeid, pytest_command(item.config), wanted.scenario)


def test_id(item: pytest.Function) -> str:
    file = relpath(item.path, item.config.invocation_params.dir)
    names = (node.name for node in item.listchain() if isinstance(node, pytest.Class | pytest.Function))
    return "::".join((file, *names))


def pytest_command(config: pytest.Config) -> str:
    # In a worker of pytest-xdist, sys.argv is not the user's command. The session sends the worker that command.
    started = getattr(config, "workerinput", {}).get("mainargv") or sys.argv
    return "python -m pytest" if Path(started[0]).name == "__main__.py" else "pytest"


def test_of(file: Path) -> str | None:
    """Return the test that a failure file names, if any, relative to pytest's root directory."""
    test = read_envelope(file.read_text()).get("test")
    return test if isinstance(test, str) else None


def file_name(test_id: str) -> str:
    digest = hashlib.blake2b(test_id.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{_PLAIN.sub('-', test_id)[-_NAME_MAX:].strip('-')}-{digest}"


def summary_of(facts: Sequence[dict[str, Any]]) -> list[str]:
    """Summarise tests, crashes, faults and failures. A second line lists enabled faults that never happened."""
    injected: Counter[str] = Counter()
    for one in facts:
        injected.update({name: times for name, times in one["injected"].items() if not is_promise(name)})
    most = ", ".join(f"{kind} {times:,}" for kind, times in injected.most_common(_MOST))
    most += f", and {len(injected) - _MOST} kinds more" if len(injected) > _MOST else ""
    broken = sum(one["signature"] is not None for one in facts)
    parts = [
        _count_text(len(facts), "test"),
        _count_text(sum(one["seeds"] for one in facts), "seed"),
        _count_text(sum(one["crash_points"] for one in facts), "crash point"),
        f"{_count_text(injected.total(), 'fault')} injected" + (f" ({most})" if most else ""),
    ]
    if any(one["time_up"] for one in facts):
        parts.append(f"time was up in {_count_text(sum(one['time_up'] for one in facts), 'test')}")
    if broken:
        parts.append(f"{broken} broken")
    silent = dict.fromkeys(name for one in facts for name in one["never_injected"])
    happened = {name for one in facts for name in one["injected"]}
    never = [name for name in silent if name not in happened and name != "crash"]
    return [", ".join(parts), *([f"never happened in any test: {', '.join(never)}"] if never else [])]


def write_report(facts: Iterable[dict[str, Any]], probes: Iterable[dict[str, Any]], out: Path) -> None:
    tests, probes = (sorted(found, key=lambda one: str(one["id"])) for found in (facts, probes))
    document = {"format": FORMAT, "tests": tests, "probes": probes}
    keep_file(out / "report.json", json.dumps(document, indent=1) + "\n")


def _count_text(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
