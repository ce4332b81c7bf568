"""Blind bugs: written before what finds them was built; nobody who builds has seen them."""

import tornlog.store.log.recovery as recovery_module
from tornlog.scenarios.mutants.mutant import Mutant, Patch
from tornlog.store.broker.long_polling import PullRequestHoldService
from tornlog.store.broker.versioned_table import DataVersion, VersionedTable
from tornlog.store.delivery import transaction_check
from tornlog.store.delivery.schedule import ScheduleMessageService, encoded_offsets
from tornlog.store.delivery.transaction_check import HalfMessageVerdict, TransactionalMessageCheckService
from tornlog.store.formats.side_json import encode_side_json
from tornlog.store.index.index_service import IndexService
from tornlog.store.log import checkpoint as checkpoint_module
from tornlog.store.log.flush import FlushRealTimeService, GroupCommitRequest
from tornlog.store.log.recovery import *  # noqa
from tornlog.store.message import PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue_table import ConsumeQueueTable
from tornlog.store.queues.consumer_offsets import ConsumerOffsetManager
from tornlog.store.queues.dispatch import ArrivalNotifier, LightQueueDispatcher
from tornlog.store.queues.flush_queues import FlushConsumeQueueService
from tornlog.store.replication.group_transfer import GroupTransfer
from tornlog.store.replication.ha_client import HAClient
from tornlog.store.replication.ha_service import HAConnection, HAService
from tornlog.store.retention.cleaning import CleanCommitLog, CleanConsumeQueue, DiskWatermark, Pressure
from tornlog.store.running_flags import Refusal

M = []


def add(id, summary, *patches):
    M.append(Mutant(id, summary, tuple(patches), ()))


# 1 progress snapshot outside of the file lock: an older version may overwrite a newer one
def _persist(self):
    content = encode_side_json(self.members)
    with self._file_lock:
        return self.file.store(content)


add(
    "progress-snapshot-before-lock",
    "older progress may be written over newer",
    Patch(ConsumerOffsetManager, "persist", _persist),
)


# 2 hold without a second look
def _hold(self, pull):
    config, held = self._config, self._held
    with self._lock:
        if self._is_released or held.count >= config.held_pulls_max:
            return False
        if held.count_of(pull.channel) >= config.held_pulls_of_client_max:
            return False
        held.add(pull)
        is_first = pull.due_ns < self._wake_ns
    if not pull.channel.is_open:
        self.forget(pull.channel)
    elif is_first:
        self.wake()
    return True


add(
    "hold-without-second-look",
    "a message that comes as a pull is held wakes it only at the next scan",
    Patch(PullRequestHoldService, "hold", _hold),
)


# 3 levels starve behind the first that waits
def _deliver_due(self):
    for level in self._delays_ms:
        wait = self._deliver_level(level)
        if wait:
            return wait
    return None


add(
    "levels-behind-one-that-waits",
    "levels are late while a lower one waits",
    Patch(ScheduleMessageService, "deliver_due", _deliver_due),
)


# 4 transaction progress published undurable
def _publish(self):
    done = self._unpublished
    if done is None:
        return
    self._unpublished = None
    for topic, offset in (
        ("RMQ_SYS_TRANS_HALF_TOPIC", done.half_offset),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", done.op_offset),
    ):
        if self._progress_in(topic) != offset:
            self._offsets.commit_offset(transaction_check.CHECK_GROUP, topic, 0, offset)


add(
    "tx-progress-outlives-log",
    "progress of the check outlives what was put back",
    Patch(TransactionalMessageCheckService, "_publish", _publish),
)


# 5 asked once more than allowed
def _verdict(half, now_ms, config, reserved_ms):
    age_ms = now_ms - half.record.born_timestamp_ms
    if half.check_times > config.transaction_check_max or age_ms > reserved_ms:
        return HalfMessageVerdict.HOPELESS
    if half.immunity_ms is not None:
        return HalfMessageVerdict.IMMUNE if age_ms < half.immunity_ms else HalfMessageVerdict.DUE
    is_young = 0 <= age_ms < config.transaction_timeout_ms
    return HalfMessageVerdict.TOO_YOUNG if is_young else HalfMessageVerdict.DUE


add(
    "asked-once-too-often",
    "a half message is asked about once more than transactionCheckMax",
    Patch(transaction_check, "verdict", _verdict),
)


# 6 cleaned_to although something was left
def _run(self):
    log_min_offset = self._log.min_offset
    if log_min_offset <= self._cleaned_to:
        return
    failure = None
    for queue in self._queues.all():
        try:
            removed = queue.remove_expired_segments(log_min_offset)
        except OSError as error:
            failure = error
            continue
        if removed and not self._pause(self._config.delete_consume_queue_files_interval_ms):
            return
    for expire in self.expirers:
        try:
            expire(log_min_offset)
        except OSError as error:
            failure = error
    self._cleaned_to = log_min_offset
    if failure is not None:
        raise failure


add(
    "clean-pass-never-repeated",
    "queues and index that failed to lose what expired are not tried again",
    Patch(CleanConsumeQueue, "run", _run),
)


# 7 segment removed when its beginning is durable in queues
def _remove_first(self):
    first, *_others = self._log.segments
    if self._flush_queues.durable_to.get() <= first.base_offset:
        self._flush_queues.hurry()
        return False
    removed = self._log.remove_first()
    self._stuck = None
    return removed


add(
    "segment-removed-half-dispatched",
    "a segment goes when only its beginning is durable in its queues",
    Patch(CleanCommitLog, "_remove_first", _remove_first),
)


# 8 flush_thoroughly reads positions after the flush
def _flush_thoroughly(self):
    self._queues.make_durable()
    dispatched_to = self._dispatch.reput_from.get()
    dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
    if self.last_error is None:
        self._checkpoint.queues_are_durable_to(dispatched_ms)
        self.durable_to.set(dispatched_to)
    self._flush_full_index_files()
    self._checkpoint.flush()


add(
    "queue-position-read-after-flush",
    "what was dispatched during the flush counts as flushed",
    Patch(FlushConsumeQueueService, "flush_thoroughly", _flush_thoroughly),
)

# 9 arrival off by one
_orig_notify = ArrivalNotifier.notify


def _notify(self, record):
    _orig_notify(self, record._replace(queue_offset=record.queue_offset - 1))


add("arrival-one-short", "an arriving message does not end the wait for it", Patch(ArrivalNotifier, "notify", _notify))


# 10 put waits for sync timeout in wrong unit
def _wait(self, timeout_ms):
    if self._done.wait(timeout_ms * 1000) and self._durable:
        return PutMessageStatus.PUT_OK
    self._gave_up = True
    return PutMessageStatus.FLUSH_DISK_TIMEOUT


add(
    "sync-timeout-in-seconds",
    "a put waits a thousand times longer for its flush",
    Patch(GroupCommitRequest, "wait", _wait),
)


# 11 clean recovery scans all
def _first_trusted(self, *a):
    return 0


names = [n for n in vars(recovery_module) if isinstance(vars(recovery_module)[n], type)]
for n in names:
    cls = vars(recovery_module)[n]
    if "_begun_segments" in vars(cls):
        add(
            "clean-start-scans-all",
            "a clean start scans the whole log",
            Patch(recovery_module, "_SEGMENTS_AFTER_CLEAN_EXIT", 1 << 30),
        )
        # 12 checkpoint ignored
        add(
            "margin-dropped",
            "recovery takes the checkpoint at its word, without the margin",
            Patch(checkpoint_module, "SAFETY_MARGIN_MS", 0),
        )


# 13 connections removed without the lock
def _on_closed(self, connection):
    left = [each for each in self.connections if each is not connection]
    self.connections = tuple(left)
    with self._lock:
        self._ended.append(connection)
        self.last_closed = f"{connection.remote_address}: {connection.closed_because}"


add(
    "connections-outside-lock",
    "a slave that connects as another closes is forgotten",
    Patch(HAService, "_on_closed", _on_closed),
)


# 14 replicas without lock
def _gone(self, replica):
    left = [each for each in self.replicas if each is not replica]
    self.replicas = tuple(left)


add(
    "replicas-outside-lock",
    "a slave that connects as another goes is not counted on",
    Patch(GroupTransfer, "gone", _gone),
)


# 15 table change outside lock
def _change(self, changed):
    table = changed(self._table)
    has_changed = table != self._table
    if has_changed:
        with self._lock:
            self._store(DataVersion(self._clock.now_ms(), self.version.counter + 1), table)
    if has_changed and self.on_changed is not None:
        self.on_changed()
    return table


add("topic-lost-beside-another", "of two topics made at once one is lost", Patch(VersionedTable, "change", _change))


# 16 table seen before durable
def _store(self, version, table):
    self.version, self._table = version, table
    self.file.store(encode_side_json(self._members_of(version, table)))


add("topic-seen-before-durable", "a topic is used before it is durable", Patch(VersionedTable, "_store", _store))


# 17 topic not durable at all until next change: store to memory only
def _store_later(self, version, table):
    if version.counter % 2 == 0:
        self.file.store(encode_side_json(self._members_of(version, table)))
    self.version, self._table = version, table


add(
    "every-second-topic-in-memory",
    "every second change of topics is in memory only",
    Patch(VersionedTable, "_store", _store_later),
)


# 18 find_or_create without second look
def _find_or_create(self, topic, queue_id):
    queue = self._queues.get((topic, queue_id))
    if queue is None:
        queue = self._make(topic, queue_id)
        with self._lock:
            self._queues[topic, queue_id] = queue
    return queue


add(
    "queue-made-twice",
    "two tasks that ask for a new queue get one each",
    Patch(ConsumeQueueTable, "find_or_create", _find_or_create),
)


# 19 the last commit of the thorough flush forgets: FlushRealTime never thorough
def _step(self):
    self.signal.wait(self.config.flush_interval_commit_log_ms)
    now_ns = self.world.clock.monotonic_ns()
    least_pages = self.config.flush_commit_log_least_pages
    if now_ns - self._thorough_ns >= self.config.flush_commit_log_thorough_interval_ms * 10_000_000:
        self._thorough_ns = now_ns
        least_pages = 0
    self.flush_to(self.queue.max_offset, least_pages)


add(
    "thorough-flush-ten-times-late",
    "what gathered is flushed ten times later than it is to be",
    Patch(FlushRealTimeService, "step", _step),
)


# 20 schedule persists progress of undurable copies
def _persist_sched(self):
    self._undurable.clear()
    self._durable = dict(self.offsets)
    return self.file.store(encoded_offsets(self._durable))


add(
    "delay-progress-outlives-copies",
    "progress of delivery is persisted though the copies are not durable",
    Patch(ScheduleMessageService, "persist", _persist_sched),
)


# 21 clamp in memory only
def _clamp(self, store):
    clamped = 0
    with self._lock:
        for key, offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                end = store.get_max_offset_in_queue(key.rpartition("@")[0], queue_id)
                if offset > end:
                    offsets[queue_id] = end
                    clamped += 1
    return clamped


add("clamp-in-memory", "offsets that were taken back are not persisted", Patch(ConsumerOffsetManager, "clamp", _clamp))


# 22 consumer commits never go back below
def _commit_offset(self, group, topic, queue_id, offset):
    key = f"{topic}@{group}"
    with self._lock:
        if self._is_light(group):
            self._light_offsets[key] = offset
        else:
            of_topic = self._offsets.setdefault(key, {})
            of_topic[queue_id] = max(offset - 1, of_topic.get(queue_id, 0)) if offset % 3 == 0 else offset


add(
    "commit-one-short",
    "every third commit is kept one short",
    Patch(ConsumerOffsetManager, "commit_offset", _commit_offset),
)


# 23 stop forgets progress
def _finish(self):
    pass


add(
    "stop-forgets-progress",
    "a clean stop does not persist what consumers committed last",
    Patch(ConsumerOffsetManager, "finish", _finish),
)


# 24 stop leaves queues unsynced
def _finish_q(self):
    try:
        for queue in self._queues.all():
            queue.flush(1)
        self._checkpoint.flush()
    except OSError as error:
        self.last_error = error


add(
    "stop-leaves-queues-unsynced",
    "a clean stop syncs whole pages of queues only",
    Patch(FlushConsumeQueueService, "finish", _finish_q),
)


# 25 marker removal before everything durable: unsynced directory
def _mark_stopped(self):
    try:
        self.world.files.unlink(self.config.abort_path)
    except OSError:
        return False
    return True


add(
    "marker-removal-unsynced",
    "the removal of the marker is not durable",
    Patch(MessageStore, "_mark_stopped", _mark_stopped),
)


# 26 master sends what is not durable
def _send_limit(self):
    at = self._sent.get()
    limit = self._log.max_offset
    if at >= limit:
        return False
    segment = self._log.find(at)
    if segment is None:
        self.close("left")
        return True
    position = at - segment.base_offset
    end = min(position + self._config.ha_transfer_batch_size, limit - segment.base_offset, segment.size_bytes)
    data = bytes(segment.file.view(position, end))
    from tornlog.store.formats.replication import encode_frame_header

    self._sent.set(at + len(data))
    self._send(encode_frame_header(at, len(data)) + data)
    return True


add(
    "slave-gets-what-is-not-durable",
    "a slave is sent what a crash of its master can take",
    Patch(HAConnection, "_send_next", _send_limit),
)


# 27 slave reports what is not durable
def _kept(self):
    return self._store.log.max_offset


add(
    "slave-reports-undurable",
    "a slave that flushes reports what is only in its page cache",
    Patch(HAClient, "_kept_offset", _kept),
)


# 28 index query breaks one file early
def _query_offset(self, topic, key, max_num, begin_ms, end_ms, accept):
    from tornlog.store.index.index_service import key_hash

    hashed = key_hash(topic, key)
    max_num = min(max_num, self._max_num)
    found = []
    for file in reversed(self.table.files):
        if file.may_hold(begin_ms, end_ms):
            file.select(hashed, begin_ms, end_ms, found, max_num, accept)
        if file.begin_timestamp_ms <= begin_ms + 1000 or len(found) >= max_num:
            break
    return found


add(
    "look-up-ends-a-file-early",
    "a look-up by time does not reach the older file of the same second",
    Patch(IndexService, "query_offset", _query_offset),
)

# 29 retention never measures after failure: watermarks -- DISK_FULL not taken back


def _measure(self):
    config = self._config
    log_ratio = min(map(self._ratio, self._log_directories))
    ratios = (log_ratio, self._ratio(self._queue_directory))
    if max(ratios) > config.disk_space_warning_level_ratio:
        self._flags.refuse(Refusal.DISK_FULL)
    elif max(ratios) <= config.disk_max_used_space_ratio / 100:
        self._flags.allow(Refusal.DISK_FULL)
    percent = min(max(config.disk_max_used_space_ratio, 10), 95)
    return Pressure(
        delete=any(r < 0 or r > percent / 100 for r in ratios),
        at_once=max(ratios) > config.disk_space_clean_forcibly_ratio,
    )


add(
    "puts-return-late-after-full",
    "puts are refused until the disk is emptier than it has to be",
    Patch(DiskWatermark, "measure", _measure),
)

# 30 delayed message forgets light queues: dispatch of light queues skipped for redirected

_orig_light = LightQueueDispatcher.dispatch


def _light(self, record):
    if b"REAL_TOPIC" in record.properties:
        return
    _orig_light(self, record)


add(
    "delayed-skips-light-queues",
    "a message that waited is in none of its light queues",
    Patch(LightQueueDispatcher, "dispatch", _light),
)

MUTANTS = {m.id: m for m in M}
