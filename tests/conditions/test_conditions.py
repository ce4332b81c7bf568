import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conditions import counting
from tests.conditions.counted_runs import CountedRun, CountedRuns, merged
from tests.conditions.counting import COUNTERS, REACHED, Condition, counting_tree, outcome_of
from tornlog.scenarios.campaigns.seed_choice import CodePlace, measured_runs


@pytest.fixture(autouse=True)
def no_conditions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(counting, "CONDITIONS", [])
    REACHED.clear()
    yield
    REACHED.clear()


def outcomes_of(source: str, **names: Any) -> dict[str, list[str]]:
    """Execute source with these global names. Return the reached outcomes by the text of their condition."""
    exec(compile(counting_tree(source, "module"), "module", "exec"), {**COUNTERS, **names})
    found: dict[str, list[str]] = {}
    for condition, outcome in sorted(map(outcome_of, REACHED)):
        found.setdefault(condition.text, []).append(outcome)
    return found


def test_each_operand_of_a_condition_counts_for_itself() -> None:
    found = outcomes_of("for a in (0, 1):\n    if a and not b:\n        pass", b=5)
    assert found == {"a": ["false", "true"], "b": ["true"]}


def test_comparisons_and_limits_count_the_order_of_their_values() -> None:
    found = outcomes_of("x = [number < 2 for number in (1, 2)]\ny = min(x[0] + 1, 2)\nz = 3 >= 2 > 1")
    assert found == {"number < 2": ["<", "="], "min(x[0] + 1, 2)": ["="], "3 >= 2 > 1": ["true"]}


def test_comparisons_return_what_they_returned() -> None:
    class Odd:
        def __lt__(self, other: object) -> str:
            return "odd"

    names: dict[str, Any] = {"odd": Odd(), "x": []}
    assert outcomes_of("x.append(odd < 1)\nx.append(2 <= 2)\nx.append(max(1, 3))", **names)["2 <= 2"] == ["="]
    assert names["x"] == ["odd", True, 3]


def test_except_clauses_and_conditions_of_every_form_count() -> None:
    source = """
while a:
    a = a - 1
b = 1 if a else 2
try:
    c = [one for one in (b, {}) if one and one["x"]]
except TypeError:
    assert a == 0
"""
    found = outcomes_of(source, a=1)
    assert found == {"a": ["false", "true", "false"], "one": ["true"], "TypeError": ["raised"]}


def test_a_condition_in_a_method_has_its_name() -> None:
    outcomes_of("class C:\n    def f(self):\n        return 1 if self.x else 2")
    assert [(one.function, one.line, one.text) for one in counting.CONDITIONS] == [
        ("C.f", 2, "def"),
        ("C.f", 3, "self.x"),
    ]


def test_calls_of_functions_count() -> None:
    found = outcomes_of("def f():\n    'text'\n    return 1\n\ndef g(): ...\n\nx.append(f.__doc__ * f())", x=[])
    assert found == {"def": ["called"]}
    assert len(counting.CONDITIONS) == 1, "a function without code is not counted"


def test_failed_calls_and_empty_results_count() -> None:
    source = """
def f(x):
    return x[0]
try:
    for x in (((),), "1", []):
        y.append(f(x))
except IndexError:
    pass
"""
    names: dict[str, Any] = {"y": []}
    found = outcomes_of(source, **names)
    assert found == {"def": ["called", "failed"], "return x[0]": ["empty", "other"], "IndexError": ["raised"]}
    assert names["y"] == [(), "1"]


def test_the_outcomes_of_several_processes_get_the_same_numbers() -> None:
    one, other = (Condition("m", line, "f", "a", ("false", "true")) for line in (1, 2))
    first = CountedRuns([(one, "false"), (one, "true")], [CountedRun("s", 0, 1.0, frozenset({1}))])
    second = CountedRuns([(other, "true"), (one, "true")], [CountedRun("t", 0, 1.0, frozenset({0, 1}))])
    both = merged([first, second])
    named = [{both.outcomes[number] for number in run.reached} for run in both.runs]
    assert named == [{(one, "true")}, {(other, "true"), (one, "true")}]


def test_the_command_prints_outcomes_that_no_seed_reaches_and_writes_the_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.conditions", "clean-shutdown", "--seeds", "1", "--module", "queues.pull"]
    command += ["--out", str(tmp_path / "runs.gz")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert not any(re.search(r"[|,] (failed|empty|other) \d+", line) for line in lines), "these are no conditions"
    assert any("QueuePuller.get_message | log.sync_error is not None | false 1, true 0" in line for line in lines)
    assert lines[-1].endswith("outcomes reached by at most 0 of 1 seeds")
    measured = measured_runs(tmp_path / "runs.gz")
    (run,) = measured.runs
    assert (run.scenario, run.seed) == ("clean-shutdown", 0)
    places = [measured.places[number] for number in range(len(measured.places)) if int(run.reached, 16) >> number & 1]
    assert CodePlace("tornlog.store.message_store", "MessageStore.put_message") in places
    assert CodePlace("tornlog.store.broker.broker", "Broker.start") not in places
