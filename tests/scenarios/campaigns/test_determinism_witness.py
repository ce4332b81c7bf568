"""Determinism witness: reads seeds and writes their results."""

import io
import pickle
import sys
from types import SimpleNamespace

import pytest

from tornlog.scenarios.campaigns.determinism_witness import TracedSeed, WitnessRuns, main, record_run, results_of_job
from tornlog.scenarios.campaigns.seeds import digest_of, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS

NAME = "crash-in-recovery"


def test_the_determinism_witness_runs_seeds_in_the_given_order_for_any_batch_size() -> None:
    seeds = [(NAME, 2), (NAME, 0), (NAME, 1)]
    told = list(results_of_job(WitnessRuns(seeds, 2)))
    assert [(one.scenario, one.seed) for one in told] == seeds
    assert told == list(results_of_job(WitnessRuns(seeds, 1)))
    assert [one.digest for one in told] == [run_seed(SCENARIOS[NAME], seed).digest for _, seed in seeds]


def test_a_determinism_witness_records_a_run_event_by_event() -> None:
    recording = record_run(TracedSeed(NAME, 1))
    assert recording.events
    assert recording == record_run(TracedSeed(NAME, 1))
    assert digest_of(SCENARIOS[NAME], 1) == run_seed(SCENARIOS[NAME], 1).digest


@pytest.mark.parametrize("job", [WitnessRuns([(NAME, 0)], 1), TracedSeed(NAME, 0)])
def test_a_determinism_witness_answers_a_job_from_stdin_on_stdout(
    job: WitnessRuns | TracedSeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pickle.dumps(job))))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=answer))
    main()
    found = pickle.loads(answer.getvalue())
    assert found == (record_run(job) if isinstance(job, TracedSeed) else list(results_of_job(job)))
