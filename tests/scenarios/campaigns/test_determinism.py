"""Determinism checks: digests are compared between processes, and differences are traced."""

from pathlib import Path

import pytest

from tornlog.scenarios.campaigns import determinism as module
from tornlog.scenarios.campaigns.determinism import (
    DigestDifference,
    WitnessError,
    WitnessProcess,
    compare_digests,
    shuffled_shares,
)
from tornlog.scenarios.campaigns.determinism_witness import Job, SeedStatement, WitnessRuns
from tornlog.sim.trace import TraceRecording

pytestmark = pytest.mark.ci

NAMES = ["crash-in-recovery", "sync-flush-power-cut"]


class OtherWitness(WitnessProcess):
    """Returns wrong results for some seeds."""

    other_seed = -1
    tells_other_events = False

    def answer(self, job: Job) -> list[SeedStatement] | TraceRecording:
        seen = super().answer(job)
        if isinstance(seen, TraceRecording):
            is_other = self.tells_other_events
            return TraceRecording(seen.events[:40], seen.words_before[:40], seen.words) if is_other else seen
        return [one._replace(digest="another") if one.seed == self.other_seed else one for one in seen]


def test_digests_are_equal_in_a_process_with_another_hash_seed_and_run_order() -> None:
    progress: list[int] = []
    witnesses = [WitnessProcess("one", hash_seed=1), WitnessProcess("two", hash_seed=2)]
    found = compare_digests(NAMES, range(3), witnesses, jobs=2, on_progress=progress.append)
    assert (found.runs, sum(progress)) == (6, 6)
    assert (found.differences, found.errors) == ([], [])
    assert list(found.digests) == NAMES
    assert len(set(found.digests.values())) == 2


@pytest.mark.slow
@pytest.mark.parametrize("tells_other_events", [True, False])
def test_a_digest_difference_names_seed_digests_and_first_different_event(
    monkeypatch: pytest.MonkeyPatch, tells_other_events: bool
) -> None:
    monkeypatch.setattr(OtherWitness, "other_seed", 1)
    monkeypatch.setattr(OtherWitness, "tells_other_events", tells_other_events)
    found = compare_digests(NAMES, range(3), [OtherWitness("a liar")])
    assert [(one.here.scenario, one.here.seed) for one in found.differences] == [(name, 1) for name in NAMES]
    text = str(found.differences[0])
    assert text.startswith(
        f"{NAMES[0]} --seed 1: held {found.differences[0].here.digest} here, held another with a liar;"
    )
    if tells_other_events:
        assert "the runs differ after event 40 [" in text
        assert text.endswith("in one run, nothing more in the other")
    else:
        assert text.endswith("no difference in a second run: it is intermittent")


def test_only_the_first_digest_differences_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherWitness, "other_seed", 0)
    monkeypatch.setattr(module, "TRACED_MAX", 1)
    found = compare_digests(NAMES, range(1), [OtherWitness("a liar")])
    assert [bool(one.where) for one in found.differences] == [True, False]


def test_a_trace_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherWitness, "other_seed", 0)
    monkeypatch.setattr(module, "record_run", lambda job: 1 / 0)
    found = compare_digests(NAMES[:1], range(1), [OtherWitness("a liar")])
    assert found.differences[0].where == "a second run with a trace ends with ZeroDivisionError: division by zero"


def test_a_run_with_a_harness_error_is_reported_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: WitnessRuns) -> list[SeedStatement]:
        return [SeedStatement(name, seed, "harness-error", "", "a sheep fell over") for name, seed in job.seeds]

    monkeypatch.setattr(module, "results_of_job", broken)
    found = compare_digests(NAMES[:1], range(1), [OtherWitness("a liar")])
    assert found.errors == [f"{NAMES[0]} --seed 0: a sheep fell over"]
    assert str(found.differences[0]).startswith(f"{NAMES[0]} --seed 0: harness-error a sheep fell over here, held ")


def test_a_witness_process_that_dies_is_reported_as_an_error(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no sheep left >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(WitnessError, match="a bad one: no sheep left"):
        WitnessProcess("a bad one", python=str(python)).answer(WitnessRuns([], 1))


def test_runs_are_shuffled_and_each_is_assigned_to_one_process() -> None:
    runs = [("a", seed) for seed in range(20)]
    hands = shuffled_shares(runs, 3)
    assert sorted(run for hand in hands for run in hand) == runs
    assert [run for hand in hands for run in hand] != runs
    assert shuffled_shares(runs, 3) == hands
    assert shuffled_shares(runs[:1], 3) == [runs[:1]]


def test_a_digest_difference_is_printed_as_one_line() -> None:
    here, there = SeedStatement("a", 1, "held", "0011", ""), SeedStatement("a", 1, "violated", "2233", "")
    assert str(DigestDifference("w", here, there)) == "a --seed 1: held 0011 here, violated 2233 with w"
