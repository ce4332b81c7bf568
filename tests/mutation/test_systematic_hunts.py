"""Systematic mutants that a few seeds find, one or two of each operator."""

import pytest

from tests.mutation import MUTANTS, selected_sites
from tests.mutation.operators import OPERATORS
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant

SEEDS_MAX = 40

FOUND_AT_ONCE = [
    "drop-lock:commit_log.CommitLog._append_plain#1",
    "drop-notice:transient_pool.CommitRealTimeService.commit#1",
    "drop-step:allocate.AllocateMappedFileService.take_segment#3",
    "drop-sync:flush.FlushRealTimeService.run_once#1",
    "drop-sync:outer_api.SlaveSynchronize.synchronize#1",
    "drop-write:index_file.IndexFile.put_key#1",
    "drop-write:message_store.MessageStore._mark_stopped#1",
    "forget-state:commit_log.CommitLog._append_locked#2",
    "ignore-error:message_store.MessageStore._acquire_file_lock#2",
    "negate-condition:dispatch.DispatchService.dispatch_available#3",
    "off-by-one:cleaning.CleanConsumeQueue.remove_expired_queues#1",
    "off-by-one:segment_queue.SegmentQueue._is_file_all_zero#1",
    "short-by-one:message_store.MessageStore.recover#1",
    "skip-advance:message_store.MessageStore.shutdown#2",
    "swap:message_store.MessageStore.mark_running#1",
]


@pytest.mark.parametrize("name", FOUND_AT_ONCE)
def test_a_generated_mutant_is_found_on_seeds_that_pass_without_it(name: str) -> None:
    mutant_result = run_mutant(MUTANTS[name], MutationSettings(MutationLimits(SEEDS_MAX), scenarios=None))
    assert mutant_result.found
    assert mutant_result.clean_violation == ""


def test_the_tested_generated_mutants_cover_nearly_every_operator() -> None:
    operators = {name.partition(":")[0] for name in FOUND_AT_ONCE}
    # there are few stale-position mutants, and none is found fast
    assert operators == set(OPERATORS) - {"stale-position"}
    assert set(FOUND_AT_ONCE) <= {site.id for site in selected_sites()}
