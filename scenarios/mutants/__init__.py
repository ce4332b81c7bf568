"""Mutants: bugs of the catalogue, one a file. The invariants find each of them, or prove nothing by their silence."""

from . import (
    abort_marker_unsynced,
    ack_before_flush,
    append_advances_before_write,
    blank_marker_offset_check,
    checkpoint_before_data,
    clean_exit_with_backlog,
    cq_empty_tail_file,
    cq_redispatch_duplicates,
    crc_skipped_on_recovery,
    failed_put_burns_queue_offset,
    flush_advance_on_io_error,
    flush_jumps_to_new_file,
    fsync_retry_acks,
    group_commit_lost_wakeup,
    group_commit_stale_result,
    group_commit_swap_race,
    no_dir_fsync_on_rollover,
    normal_recovery_keeps_dirty_cq,
    offset_table_rebuilt_early,
    props_outside_crc,
    reput_dies_on_error,
    reput_past_flushed,
    reput_starts_at_log_end,
    second_instance_recovers_before_lock,
    stale_tail_after_truncate,
    zero_length_trailing_file,
)
from .mutant import Mutant

MUTANTS: dict[str, Mutant] = {
    module.MUTANT.id: module.MUTANT
    for module in (
        abort_marker_unsynced,
        ack_before_flush,
        append_advances_before_write,
        blank_marker_offset_check,
        checkpoint_before_data,
        clean_exit_with_backlog,
        cq_empty_tail_file,
        cq_redispatch_duplicates,
        crc_skipped_on_recovery,
        failed_put_burns_queue_offset,
        flush_advance_on_io_error,
        flush_jumps_to_new_file,
        fsync_retry_acks,
        group_commit_lost_wakeup,
        group_commit_stale_result,
        group_commit_swap_race,
        no_dir_fsync_on_rollover,
        normal_recovery_keeps_dirty_cq,
        offset_table_rebuilt_early,
        props_outside_crc,
        reput_dies_on_error,
        reput_past_flushed,
        reput_starts_at_log_end,
        second_instance_recovers_before_lock,
        stale_tail_after_truncate,
        zero_length_trailing_file,
    )
}
"""Every mutant by id, sorted."""
