"""Systematic mutants that no seed finds, and sites that no run reaches.

`equivalent`: in a simulated world the change breaks no promise of the store. `gap`: the change breaks a promise, but no
run detects this yet. A checkpoint or progress that lags for a while makes the next recovery slower and breaks no
promise. The same applies to work done later or more often than needed. A lag after all services are idle violates
QUIET.
"""

_LATE_PUT = "gap: a put would have to be held up between log and group commit for as long as a whole stop takes"
_DAMAGED_TWICE = (
    "gap: a load would have to find a damaged file, then all older versions would have to become wrong, then the next "
    "load would have to find a damaged file again; 500 seeds had none"
)

SURVIVORS: dict[str, str] = {
    "drop-lock:checkpoint.StoreCheckpoint.flush#1": (
        "equivalent: of two writes that cross, the older may be the last, and the checkpoint then lags"
    ),
    "drop-lock:consume_queue_table.ConsumeQueueTable.forget_queue#1": "equivalent: deleting from a table is one step",
    "drop-lock:consume_queue_table.ConsumeQueueTable.make_durable#1": (
        "gap: queues would have to be removed by hand in the moment in which their names are synced"
    ),
    "drop-lock:consumer_offsets.ConsumerOffsetManager.json_members#1": (
        "equivalent: copying a table is one step, and the next write has what this one missed"
    ),
    "drop-lock:consumer_offsets.ConsumerOffsetManager.query_offset#1": (
        "equivalent: looking into a table is one step, and what a group has committed is as good as what it had before"
    ),
    "drop-lock:flush.FlushCommitLogService.flush_to#1": _LATE_PUT,
    "drop-lock:flush.GroupCommitService.finish_remaining_work#1": (
        "equivalent: taking the requests needs the same lock, so a put that found the service open has added its "
        "request by then"
    ),
    "drop-lock:ha_client.HAClient._replicate_from#1": (
        "equivalent: a stop and a new address are set before the connection is ended, and the task looks at both "
        "after it has set the connection"
    ),
    "drop-lock:index_service.IndexFiles.delete_expired#2": (
        "gap: nothing expires in its component's runs; where it does, a new file would have to be made between the "
        "reading of the row and its replacement. With four entries in a file, one key in each message and tasks that "
        "switch at attributes, 1 of 967 seeds of retention-oldest-first found it (STATUS)"
    ),
    "drop-lock:index_service.IndexFiles.make_durable#1": (
        "equivalent: called by recovery and as the store stops, when nobody removes files"
    ),
    "drop-lock:late_answers.LateAnswerService._schedule_check#1": (
        "equivalent: adding to a heap is one step, and only the task that calls this replaces the heap"
    ),
    "drop-lock:late_answers.LateAnswerService.add#1": (
        "gap: two sends would have to count their answers at once; 234 seeds had none"
    ),
    "drop-lock:long_polling.PullRequestHoldService._end_due_waits#1": (
        "equivalent: copying the keys of a table is one step"
    ),
    "drop-lock:segment_queue.SegmentQueue.add#1": (
        "gap: a segment would have to be removed between the reading of the row and its replacement; in runs in which "
        "segments expire and tasks switch at attributes, one seed in some 400 breaks POS or QUIET"
    ),
    "drop-lock:segment_queue.SegmentQueue.remove_in_use#1": (
        "equivalent: assigning is one step, and nobody else replaces the row of a queue that is removed"
    ),
    "drop-lock:transaction_queues.TransactionDecisions.record_op_stored#1": (
        "equivalent: assigning to a place in a table is one step"
    ),
    "drop-lock:transient_pool.TransientStorePool.borrow_buffer#1": (
        "equivalent: one task borrows, so a buffer that it has seen is there when it takes one"
    ),
    "drop-lock:transient_pool.TransientStorePool.fill#1": (
        "equivalent: the pool is filled before the services of the store start"
    ),
    "drop-lock:transient_pool.TransientStorePool.give_back#1": "equivalent: adding to a list is one step",
    "drop-notice:broker.Broker._register_again#1": (
        "equivalent: the next registration, up to an interval later, has the changed topic"
    ),
    "drop-notice:cleaning.RetentionService.delete_manually#1": (
        "equivalent: the next pass deletes, up to an interval later"
    ),
    "drop-notice:flush.FlushRealTimeService.start_durability_wait#1": (
        "equivalent: what puts have gathered is flushed at the end of the interval instead"
    ),
    "drop-notice:flush_queues.FlushConsumeQueueService.request_full_flush#1": (
        "equivalent: the queues are flushed at the end of the interval instead"
    ),
    "drop-notice:late_answers.LateAnswerService.add#1": (
        "gap: no check compares the time of an answer with its deadline while a sync takes longer"
    ),
    "drop-notice:message_store.MessageStore._on_committed#1": (
        "equivalent: what is committed is flushed at the end of the interval instead"
    ),
    "drop-step:allocate.AllocateMappedFileService.finish_remaining_work#1": (
        "equivalent: a map that is not given back shows nowhere before its process ends"
    ),
    "drop-step:allocate.AllocateMappedFileService.finish_remaining_work#2": (
        "equivalent: the next load takes it for a segment that was made ahead of use"
    ),
    "drop-step:message_store.MessageStore.begin_put#2": "equivalent: the step only counts slow puts for operators",
    "drop-step:name_server.NameServer.register#1": (
        "gap: 64 brokers would have to be registered, some of them expired since the last request; a request for "
        "a route drops these as well"
    ),
    "drop-step:name_server.NameServer.unregister#1": (
        "equivalent: it only forgets names whose writes are wiped, which no operator of a run does"
    ),
    "drop-step:pull.QueuePuller.get_message#2": (
        "equivalent: the answer sends the consumer to the same offset, and its next pull examines the entries"
    ),
    "drop-step:remoting_client.ClientConnection.close#1": (
        "equivalent: whoever waits for an answer of the closed connection waits for its timeout instead"
    ),
    "drop-step:send.SendMessageProcessor._make_send_response#1": (
        "equivalent: the step only writes lines for operators"
    ),
    "drop-step:side_file.SideFile.store_alone#2": _DAMAGED_TWICE,
    "drop-sync:flush_queues.FlushConsumeQueueService.run_once#3": (
        "equivalent: the checkpoint is written by the next thorough flush, and lags until then"
    ),
    "drop-sync:index_service.IndexFiles.make_full_durable#1": (
        "equivalent: the checkpoint does not speak for a file that was not synced, and a load builds that again"
    ),
    "drop-sync:segment.Segment.zero_from#1": (
        "gap: a kill would have to come between the zeros of a truncation and their sync; 425 seeds with "
        "crashes in recovery had none"
    ),
    "drop-sync:side_file.SideFile._remove_backup#1": _DAMAGED_TWICE,
    "drop-write:allocate.AllocateMappedFileService.make_segment#2": (
        "equivalent: the next attempt to make the segment removes the half made file first, and so does load"
    ),
    "forget-state:cleaning.RetentionService.delete_manually#1": (
        "equivalent: the next pass deletes, up to an interval later"
    ),
    "forget-state:consume_queue_table.ConsumeQueueTable.make_durable#1": (
        "equivalent: directories are synced again by every flush"
    ),
    "forget-state:consumer_filter.ConsumerFilterManager.register#2": (
        "equivalent: without bits of the group, a pull evaluates each record"
    ),
    "forget-state:consumer_offsets.ConsumerOffsetManager._try_to_persist#2": ("equivalent: the error is only shown"),
    "forget-state:dispatch.DispatchService.dispatch_available#1": "equivalent: only a statistic is lost",
    "forget-state:dispatch.DispatchService.finish_remaining_work#1": (
        "equivalent: the error is only shown; what was not dispatched keeps the stop from being clean"
    ),
    "forget-state:flush.FlushRealTimeService.start#2": "equivalent: the first thorough flush comes earlier",
    "forget-state:flush_queues.FlushConsumeQueueService.run_once#1": (
        "equivalent: the queues are flushed thoroughly more often than needed"
    ),
    "forget-state:ha_client.HAClient._replicate_from#3": ("equivalent: the error is only shown"),
    "forget-state:message_store.MessageStore.recover#3": (
        "equivalent: until the first record is dispatched the checkpoint lags"
    ),
    "forget-state:recovery.Recovery._scan_from#3": (
        "equivalent: a second scan comes upon the same damage; what is noted twice counts once"
    ),
    "forget-state:transient_pool.TransientStorePool.fill#1": (
        "equivalent: segments do without a buffer, and puts are seen and durable no later"
    ),
    "ignore-error:cleaning.RetentionService.run_clean_pass#1": "equivalent: the error is only shown",
    "ignore-error:consume_queue_ext.ConsumeQueueExt.remove_before#1": (
        "equivalent: the function ends behind the handler"
    ),
    "ignore-error:consumer_offsets.ConsumerOffsetManager._try_to_persist#1": ("equivalent: the error is only shown"),
    "ignore-error:dispatch.DispatchService.finish_remaining_work#1": (
        "equivalent: the error is only shown; what was not dispatched keeps the stop from being clean"
    ),
    "ignore-error:ha_client.HAClient._durable_log_offset#1": (
        "equivalent: after a failed sync the flushed position, which is reported, no longer moves"
    ),
    "ignore-error:outer_api.BrokerRegistration.finish_remaining_work#1": "equivalent: the error is only shown",
    "ignore-error:schedule.ScheduleMessageService.try_to_persist#1": ("equivalent: the error is only shown"),
    "ignore-error:segment_queue.try_used_ratio#1": (
        "equivalent: the function ends behind the handler, and gives None as well"
    ),
    "ignore-error:transaction_check.TransactionalMessageCheckService.check_half_messages#1": (
        "equivalent: the steps of the handler follow anyway, and the error is only shown"
    ),
    "ignore-error:transaction_queues._decode_record#1": (
        "equivalent: the function ends behind the handler, and gives None as well"
    ),
    "ignore-error:transient_pool.CommitRealTimeService.commit#1": (
        "equivalent: the buffer still has it, and the next commit writes it again"
    ),
    "negate-condition:allocate.AllocateMappedFileService._wrap_in_segment#2": (
        "equivalent: segments do without a buffer, and puts are seen and durable no later"
    ),
    "negate-condition:flush.FlushRealTimeService.run_once#1": (
        "equivalent: the log is flushed thoroughly at every interval but a few"
    ),
    "negate-condition:flush.FlushRealTimeService.start_durability_wait#1": (
        "equivalent: what puts have gathered is flushed at the end of the interval instead, or earlier than needed"
    ),
    "negate-condition:light_queues.LightPut.exceeds_queue_limit#1": (
        "equivalent: the condition is a short cut; the count behind it comes to the same answer"
    ),
    "negate-condition:name_server.NameServer._queue_data#1": (
        "gap: a broker would have to run with another brokerPermission than 6"
    ),
    "negate-condition:transient_pool.TransientStorePool.borrow_buffer#1": (
        "equivalent: segments do without a buffer, and puts are seen and durable no later"
    ),
    "off-by-one:checkpoint.read_checkpoint#1": (
        "equivalent: a file of the regular length is mapped instead of read, with the same bytes"
    ),
    "off-by-one:cleaning.CleanConsumeQueue.remove_expired#1": (
        "equivalent: a pass over queues that have nothing to lose does nothing"
    ),
    "off-by-one:commit_log.CommitLog.record_bytes#1": (
        "equivalent: no bytes are no record to whoever asked, as None is"
    ),
    "off-by-one:consume_queue_ext.ConsumeQueueExt._segment_with_room#1": (
        "equivalent: a unit that would just fit begins the next file, where readers find it as well"
    ),
    "off-by-one:consumer_filter.ConsumerFilterManager._drop_expired_registrations#1": (
        "equivalent: bits of a group that has gone are set for 1 ms longer, and nobody reads them"
    ),
    "off-by-one:consumer_offsets.ConsumerOffsetManager.clamp_to_queues#1": (
        "equivalent: an offset at the end is replaced by the end"
    ),
    "off-by-one:consumer_offsets.ConsumerOffsetManager.clamp_to_queues#2": (
        "equivalent: an offset at the end is replaced by the end"
    ),
    "off-by-one:flush.GroupCommitService.commit#1": (
        "equivalent: a request that ends where the durable part does is asked about once more, with the same answer"
    ),
    "off-by-one:ha_service.HAConnection._process_first_report#3": ("equivalent: only a mark is hit that should not be"),
    "off-by-one:ha_service.HAConnection.has_range#2": (
        "gap: no check compares FLUSH_SLAVE_TIMEOUT with what the slave has reported by then"
    ),
    "off-by-one:index_recovery.IndexRecovery._keyed_records#1": (
        "equivalent: a scan that begins at the end of a segment finds no record"
    ),
    "off-by-one:index_recovery.IndexRecovery._remove_other_files#2": (
        "equivalent: only a mark is hit that should not be"
    ),
    "off-by-one:message_store.MessageStore.get_message#1": (
        "equivalent: only a statistic tells a reader at the end from one just in front of it"
    ),
    "off-by-one:pull.PullMessageProcessor._pull#1": (
        "equivalent: a group without an offset in a queue that begins at 0 has the offset 0 as well"
    ),
    "off-by-one:queue_replay.QueueReplay._is_continued_by#2": (
        "equivalent: two entries never point to the same record"
    ),
    "off-by-one:schedule.ScheduleMessageService._advance_to_logged_copies#1": (
        "equivalent: progress is set to the offset where it is"
    ),
    "off-by-one:segment.Segment.zero_from#1": "equivalent: no bytes are synced once more",
    "off-by-one:segment_queue.SegmentQueue.truncate#2": "equivalent: a position is set to where it is",
    "off-by-one:server.RemotingServer._receive#1": ("gap: a body would have to be exactly as long as the limit"),
    "off-by-one:session.Session._is_within_limits#2": (
        "equivalent: requests may exceed the limit by the bytes of one read anyway"
    ),
    "off-by-one:transient_pool.BufferedSegment._write#2": "equivalent: only a mark is hit that should not be",
    "short-by-one:cleaning.CleanCommitLog.delete_manually#1": (
        "equivalent: an order to delete lasts nineteen passes; what they leave goes with the next order, or at its hour"
    ),
    "short-by-one:consume_queue_ext.ConsumeQueueExt.truncate_to_last_used#1": (
        "equivalent: the end of recovery syncs the units, which moves the position over the durable files"
    ),
    "short-by-one:flush_queues.FlushConsumeQueueService.flush_thoroughly#1": (
        "equivalent: dispatch goes on past the end of a segment, and the next thorough flush lets it expire"
    ),
    "short-by-one:index_file.IndexFile._publish_header#1": (
        "equivalent: readers take the entry at the count for one that is there, and a full file is synced later"
    ),
    "short-by-one:index_file.IndexFile._write_buffered_entries#1": (
        "equivalent: readers take the entry at the count for one that is there"
    ),
    "short-by-one:recovery.Recovery._set_log_positions#1": (
        "equivalent: the end of recovery syncs the log, which moves the position over the durable segments"
    ),
    "skip-advance:consume_queue.ConsumeQueue.set_recovered_end#1": (
        "equivalent: the end of recovery syncs the queues, which moves the position over the durable files"
    ),
    "skip-advance:consume_queue_ext.ConsumeQueueExt.truncate_to_last_used#1": (
        "equivalent: the end of recovery syncs the units, which moves the position over the durable files"
    ),
    "skip-advance:recovery.Recovery._set_log_positions#1": (
        "equivalent: the end of recovery syncs the log, which moves the position over the durable segments"
    ),
    "stale-position:broker_admin.BrokerAdminProcessor.topic_stats#1": (
        "equivalent: only the method is read early, and called when its value is needed"
    ),
    "stale-position:cleaning.CleanCommitLog.remove_expired#1": (
        "equivalent: an order to delete that comes while the disk is measured counts from the next pass on"
    ),
    "stale-position:consumer_filter.BloomFilter.bit_positions#1": ("equivalent: the size of a filter never changes"),
    "stale-position:flush.FlushCommitLogService.flush_to#1": _LATE_PUT,
    "stale-position:flush.FlushRealTimeService.run_once#1": (
        "equivalent: what came during the wait is flushed at the next interval, or by the stop"
    ),
    "stale-position:index_file.IndexFile.end_building#1": ("equivalent: nobody else adds entries while recovery does"),
    "stale-position:message_store.MessageStore._require_readable#1": (
        "equivalent: a refusal that comes while a reader asks counts from the next one on"
    ),
    "stale-position:parts.BrokerParts.consume_progress#1": (
        "equivalent: only the method is read early, and called when its value is needed"
    ),
    "stale-position:schedule.ScheduleMessageService._deliver_level#1": (
        "equivalent: dispatch wakes delivery for what it has not seen the end of"
    ),
    "stale-position:segment_queue.SegmentQueue.truncate#1": (
        "equivalent: recovery is alone, nobody moves the position while it cuts"
    ),
    "stale-position:segment_times._last_stored_ms#1": (
        "equivalent: recovery is alone, nobody moves the end of the log"
    ),
    "stale-position:transient_pool.CommitRealTimeService.commit#1": (
        "equivalent: the next commit tells the other services, or their stop"
    ),
    "swap:allocate.AllocateMappedFileService.make_durable#1": (
        "equivalent: the segment is handed out only after both syncs"
    ),
    "swap:commit_log.CommitLog._append_plain#1": (
        "equivalent: a flush that reads the time early makes all records before that one durable, so the checkpoint "
        "covers at most the record that is being added. Recovery begins at a record that is at least 3 s older, so it "
        "reads that one"
    ),
    "swap:flush_queues.FlushConsumeQueueService.flush_thoroughly#1": (
        "gap: another task would have to meet a failed sync of a queue while all queues are flushed. Retention syncs "
        "three files of queues in a run, and one of ten during a flush; most are durable by then, so the sync cannot "
        "fail"
    ),
    "swap:ha_service.HAConnection._process_first_report#1": (
        "equivalent: nobody reads either position before the first report is set, which comes after both"
    ),
    "swap:index_file.IndexFile.put_key#1": (
        "equivalent: readers pass over a slot that leads to the count or beyond, and a crash's open file is built again"
    ),
    "swap:index_service.IndexFiles.sync_names#1": "equivalent: who asks goes on only after both syncs",
    "swap:schedule.ScheduleMessageService.persist_correction#1": (
        "equivalent: if persisting fails the store does not start, and the flag goes with it"
    ),
    "swap:segment.Segment.close_with_blank#1": (
        "equivalent: readers look where the blank record begins only once the segment counts as full, which is set last"
    ),
    "swap:segment.Segment.set_positions#1": (
        "equivalent: recovery is alone, and nobody reads the one position without the other"
    ),
}

_NO_SUCH_DELAY = "nobody delays a message to a topic that none can be delivered to"
_NO_FOREIGN_NAME = "no foreign name is in a directory"
_NO_REFUSAL = "no disk of its component's runs refuses to remove a file"
_NO_SLAVE = "only a slave comes there, and its component's runs have none"
_NO_BROKER = "only a broker tells its slave a new master, and its component's runs have none"
_NO_WRONG_NUMBER = "no record of its component's runs has a number that cannot be its own"

UNREACHED: dict[str, str] = {
    "forget-state:flush.GroupCommitRequest.poll#1": "only a broker's sends look, and its runs are of another component",
    "forget-state:consumer_offsets.ConsumerOffsetManager.commit_offset#1": "no consumer group reads light queues only",
    "ignore-error:light_queues.light_put#1": "nobody names a light queue that no directory can have",
    "ignore-error:redirect.redirect_delayed#1": _NO_SUCH_DELAY,
    "ignore-error:allocate.AllocateMappedFileService.finish_remaining_work#1": _NO_REFUSAL,
    "ignore-error:segment_queue.SegmentQueue._find_base_offsets#1": _NO_FOREIGN_NAME,
    "ignore-error:segment_queue.SegmentQueue._keep_file_with_data#1": (
        "no two directories of a log have a segment of one name"
    ),
    "ignore-error:transaction_service.TransactionalMessageService._put_op#1": "no put of an op raises an error",
    "ignore-error:transaction_service.TransactionalMessageService.commit#1": "no put of a copy raises an error",
    "negate-condition:cleaning.CleanCommitLog._retry_failed_removals#2": _NO_REFUSAL,
    "stale-position:consume_queue.ConsumeQueue.fill_blank#1": "no queue begins in its middle while the store runs",
    "drop-lock:allocate.AllocateMappedFileService.remove_segments_before#2": _NO_SLAVE,
    "drop-step:allocate.AllocateMappedFileService.remove_segments_before#1": _NO_SLAVE,
    "off-by-one:allocate.AllocateMappedFileService.remove_segments_before#1": _NO_SLAVE,
    "drop-notice:commit_log.CommitLog.append_replicated#1": _NO_SLAVE,
    "drop-step:commit_log.CommitLog.append_replicated#1": _NO_SLAVE,
    "drop-notice:ha_client.HAClient.update_master_address#1": _NO_BROKER,
    "drop-step:ha_client.HAClient.update_master_address#1": _NO_BROKER,
    "stale-position:commit_log.CommitLog._can_append_at#1": _NO_SLAVE,
    "drop-write:schedule.ScheduleMessageService.take_over#1": _NO_SLAVE,
    "drop-lock:transaction_service.TransactionalMessageService.resume#1": (
        "only operators of brokers resume, and its runs are of a lone store"
    ),
    "drop-step:consume_queue.ConsumeQueue.remove#1": "no queue with an extension is removed",
    "drop-step:index_service.IndexService._make_file_with_room#2": (
        "no disk of its component's runs refuses to make a file"
    ),
    "drop-step:segment_queue.SegmentQueue.remove_in_use#1": "no queue is removed that has two files",
    "drop-step:transaction_check.TransactionalMessageCheckService._store_missing_ops#1": (
        "no put of an op fails in its component's runs"
    ),
    "drop-write:allocate.AllocateMappedFileService.make_segment#1": "no file is in the place of a new segment",
    "ignore-error:checkpoint.StoreCheckpoint.load#1": "nobody damages a checkpoint in its component's runs",
    "ignore-error:cleaning.CleanConsumeQueue._remove_queue#1": _NO_REFUSAL,
    "ignore-error:consume_queue.ConsumeQueue._check_queue_offset#1": _NO_WRONG_NUMBER,
    "off-by-one:consume_queue.ConsumeQueue._check_queue_offset#2": _NO_WRONG_NUMBER,
    "ignore-error:recovery.Recovery._begin_replay#2": _NO_WRONG_NUMBER,
    "ignore-error:segment_queue.SegmentQueue.make_second_durable#1": "no sync of a file fails in its component's runs",
    "ignore-error:service.Service._run_until_stopped#1": "no service ends by an error",
    "ignore-error:transaction_check.TransactionalMessageCheckService._put_question#1": (
        "nobody who is asked raises an error"
    ),
    "ignore-error:transient_pool.BufferedSegment._write#1": "no write writes nothing",
    "negate-condition:segment_queue.SegmentDirectories.path#2": "its component's runs have one directory for the log",
    "short-by-one:dispatch.DispatchService.dispatch_available#1": _NO_SLAVE,
    "skip-advance:dispatch.DispatchService.dispatch_available#1": _NO_SLAVE,
    "drop-notice:message_store.MessageStore.call_when_readable#1": (_NO_SLAVE),
    "drop-step:consume_queue.ConsumeQueue.fill_blank#1": ("no queue begins in its middle while the store runs"),
    "ignore-error:segment_queue.SegmentQueue.flush#1": ("no sync of a file fails in its component's runs"),
    "off-by-one:consume_queue.QueueSegments.is_expendable#1": ("no whole file of a queue is behind a half-made one"),
    "ignore-error:segment_queue.SegmentQueue.sync_page#1": ("no delay queue of its component's runs lacks an entry"),
    "drop-step:dispatch.DispatchService._dispatch_record#2": _NO_WRONG_NUMBER,
    "ignore-error:dispatch.DispatchService._dispatch_batch#1": _NO_WRONG_NUMBER,
    "forget-state:dispatch.DispatchService._skip_record#2": _NO_WRONG_NUMBER,
    "drop-step:request_pool.RequestPool.refuse_queued_requests#1": "no stop of a run ends before its requests do",
    "forget-state:index_service.IndexService._make_file_with_room#3": (
        "no disk of its component's runs refuses to make a file"
    ),
    "forget-state:service.Service._run_until_stopped#1": "no service ends by an error",
    "forget-state:side_file.SideFile._report_interrupted_replacement#1": (
        "no replacement of a damaged file is interrupted in its component's runs"
    ),
    "forget-state:transaction_queues.TransactionDecisions.record_resumed#1": (
        "only operators of brokers resume, and its runs are of a lone store"
    ),
    "ignore-error:consume_queue.QueueSegments.require_file_sizes#1": "no file of a queue is too long",
    "ignore-error:long_polling.PullRequestHoldService._answer_pull#1": "no second look at a held pull raises an error",
    "ignore-error:outer_api._invoke_or_raise#1": (
        "no name server and no master of its component's runs refuses a request"
    ),
    "ignore-error:replica_log.ReplicaLog._begin_empty#1": "no log of a master begins inside a file",
    "ignore-error:request_pool.RequestPool._run_worker#1": "no task of a pool ends by an error",
    "ignore-error:schedule.ScheduleMessageService.run_once#1": "no delivery of its component's runs raises an error",
    "negate-condition:group_admin.GroupAdminProcessor.producer_connections#1": (
        "no operator asks for the producers of a group"
    ),
    "negate-condition:group_transfer.GroupTransferRequest.poll#1": (
        "only a broker's sends look, and its runs are of another component"
    ),
    "negate-condition:ha_client.HAClient.state#1": "only operators ask for the state of a slave",
    "negate-condition:pull.QueuePuller._examine_entries#17": (
        "no consumer of its component's runs has a filter that reads records; shipped scenarios find it"
    ),
    "drop-step:requests.ExtFields.boolean#1": "no request of its component's runs lacks a boolean field",
    "forget-state:transaction_check.TransactionalMessageCheckService.set_config#1": (
        "only operators of brokers change settings, and its runs are of a lone store"
    ),
    "ignore-error:dispatch.DispatchService._dispatch_record#1": _NO_WRONG_NUMBER,
    "ignore-error:names.NameServerProcessor.list_kv_configs#1": "no user of its component's runs asks for keys",
    "ignore-error:server.RemotingServer._make_response#1": "no broker of its component's runs has accounts",
    "ignore-error:subscriptions.SubscriptionData._expression_fault#1": (
        "no consumer of its component's runs names an invalid expression"
    ),
    "negate-condition:pull.offset_by_time#6": (
        "only users of brokers look up offsets by time, and its runs are of a lone store"
    ),
    "drop-step:request_pool.RequestPool.join#1": "no stop of a run ends before its requests do",
    "ignore-error:names.NameServerProcessor.put_kv_config#1": "no user of its component's runs changes keys",
    "ignore-error:pull.PullMessageProcessor._registered_subscription#3": (
        "no group of its component's runs lacks the subscription that a pull needs"
    ),
    "ignore-error:pull.PullMessageProcessor._require_readable_group#1": (
        "no operator of its component's runs removes a permission"
    ),
    "ignore-error:pull.PullMessageProcessor._registered_subscription#2": "no consumer of a run broadcasts",
    "ignore-error:pull.PullMessageProcessor._registered_subscription#4": (
        "no consumer of its component's runs pulls with a later version than its heartbeat had"
    ),
    "ignore-error:subscriptions._read_short_name#1": "no client of a run has a long name",
    "drop-lock:name_server.NameServer.version_of#1": "no broker of its component's runs asks for its topics' version",
    "ignore-error:send.SendMessageProcessor._retry_or_dead_letter#1": (
        "no group of a run has a name that is too long for a topic"
    ),
    "negate-condition:name_server.NameServer.set_writeable#1": (
        "no operator changes the write permission of a broker at a name server"
    ),
    "stale-position:connections.Connections.close_slowest_clients#1": (
        "no clients of a run hold more bytes than a server permits"
    ),
}
"""Sites that no run reaches, by id, with the condition for reaching each. The next site is hunted instead."""
