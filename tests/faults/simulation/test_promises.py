"""Promises and events in code under test: counted, and found in unexecuted source."""

import importlib
import sys
from functools import partial
from pathlib import Path

import pytest

from tornlog.faults.simulation.promises import PromiseBroken, always, declared_promises, sometimes
from tornlog.faults.simulation.simulation import Simulation
from tornlog.faults.simulation.trials import Coverage, NeverInjected, find

MODULE = """
from tornlog.faults.simulation import promises
from tornlog.faults.simulation.promises import always, sometimes as now_and_then

def never_called(full):
    now_and_then("the buffer is full", full)
    promises.sometimes(event="a retry")
    always(not full, promise="the buffer has room")
    always(not full, "a name " + str(full))
    len("no promise")
"""


def test_a_failed_promise_raises_an_error_with_the_actual_value() -> None:
    always(True, "it holds")
    with pytest.raises(PromiseBroken, match="a saved value is there: found nothing"):
        always(False, "a saved value is there", "found nothing")


def test_promises_in_the_source_are_found_without_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buffer_under_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("buffer_under_test")
    try:
        found = declared_promises(partial(module.never_called, full=True))
    finally:
        del sys.modules["buffer_under_test"]

    assert found == ("sometimes: the buffer is full", "sometimes: a retry", "always: the buffer has room")


def test_promises_of_unused_modules_are_left_out() -> None:
    assert not any("buffer" in name for name in declared_promises(find))


def test_the_coverage_report_lists_unreached_events() -> None:
    def scenario(run: Simulation) -> None:
        for number in range(3):
            sometimes(f"number {number}", number < 2)
            always(number < 3, "numbers are small")

    coverage = Coverage()
    with pytest.warns(NeverInjected, match="sometimes: number 2"):
        assert find(scenario, range(2), coverage.add) is None

    assert "sometimes: number 0 2" in str(coverage)
    assert "always: numbers are small 6" in str(coverage)
    assert "sometimes: number 2" in coverage.never_injected


def test_a_failed_promise_is_the_finding_of_its_seed() -> None:
    def scenario(run: Simulation) -> None:
        always(run.choices.stream("draws").randbelow(4, "number") != 3, "no threes")

    finding = find(scenario, range(50))

    assert finding is not None
    assert finding.signature == "no threes"
