"""Scenarios, one claim a file."""

from ..scenario import Scenario
from . import (
    async_flush_keeps_a_prefix,
    checkpoint_never_leads,
    clean_stop_loses_nothing,
    consumers_never_see_what_can_vanish,
    crash_during_allocation,
    crash_in_recovery,
    cut_records_never_return,
    failed_sync_is_never_acknowledged,
    full_disk_refuses_cleanly,
    lost_tail_is_cut_with_its_entries,
    process_kill_loses_nothing,
    rollover_at_a_crash,
    second_start_is_refused,
    slow_sync_times_out_truthfully,
    sync_flush_survives_power_loss,
    tag_filtered_reads_stay_exact,
    torn_records_are_dropped,
)

SCENARIOS: dict[str, Scenario] = {
    module.SCENARIO.name: module.SCENARIO
    for module in (
        sync_flush_survives_power_loss,
        async_flush_keeps_a_prefix,
        process_kill_loses_nothing,
        rollover_at_a_crash,
        crash_during_allocation,
        crash_in_recovery,
        clean_stop_loses_nothing,
        slow_sync_times_out_truthfully,
        failed_sync_is_never_acknowledged,
        tag_filtered_reads_stay_exact,
        consumers_never_see_what_can_vanish,
        cut_records_never_return,
        checkpoint_never_leads,
        torn_records_are_dropped,
        lost_tail_is_cut_with_its_entries,
        full_disk_refuses_cleanly,
        second_start_is_refused,
    )
}
"""Every scenario by name, the plainest claim first."""
