"""Bugs of brokers: group offsets, tables, long polling, and replies."""

from collections.abc import Callable, Mapping
from itertools import takewhile

from ....store.broker.broker import Broker
from ....store.broker.late_answers import LateAnswerService
from ....store.broker.long_polling import HeldPull, PullRequestHoldService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors import pull
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.request_pool import PooledRequest
from ....store.broker.requests import ExtFields, RequestRefusedError, ResponseCode, success_response
from ....store.broker.router import Channel, Response
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.server import RemotingServer
from ....store.broker.topics import TopicConfig
from ....store.broker.versioned_table import DataVersion, Entry, VersionedTable
from ....store.formats.half_message import EndTransaction, committed_message_of
from ....store.formats.messages import (
    AppendMessageResult,
    GetMessageResult,
    GetMessageStatus,
    PutMessageResult,
    PutMessageStatus,
)
from ....store.formats.remoting import command
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import JsonMembers
from ....store.formats.scan import ScannedRecord
from ....store.log.commit_log import CommitLog
from ....store.log.put_encoder import EncodedPut
from ....store.queues.dispatch import ArrivalNotifier, MessageArrival
from ....store.services.transaction_service import (
    EndTransactionResult,
    EndTransactionStatus,
    TransactionalMessageService,
)
from ....store.side_file import SideFile
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))


@bug("offset-committed-at-delivery", PullMessageProcessor, "_pull", found_by=("META", "LIVE", "QUIET"))
@needs(_LIVELY)
def pull_and_commit(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A group's offset advances when a consumer receives messages, before the consumer processes them."""
    response = pull_and_commit.original(self, request, channel, may_hold=may_hold)
    if response is not None and response.body:
        fields = ExtFields(request.ext_fields)
        queue = fields.text("topic"), fields.int32("queueId")
        following = int(response.ext_fields["nextBeginOffset"])
        bit()
        self._parts.offsets.commit_offset(fields.text("consumerGroup"), *queue, following)
    return response


# All members of a group can be disconnected for a short time.
@bug("gone-group-loses-progress", BrokerParts, "_unregister_filters", found_by=("META", "QUIET"))
@needs(_LIVELY, broker={"client_death_chance": (0.05,)})
def forget_group(self: BrokerParts, group: str) -> None:
    """A group loses its offsets when its last member disconnects."""
    forget_group.original(self, group)
    bit()
    self.offsets.remove_group(group)


@bug("header-fields-are-texts", JsonMembers, "texts", found_by=("LIVE", "QUIET"))
@needs(_LIVELY, broker={"other_clients": (True,)})
def accept_only_text_fields(self: JsonMembers) -> dict[str, str]:
    """A JSON header with a field of another type than string, as from the C++ client, closes the connection."""
    for name in self.names:
        if bit(not isinstance(self._members[name], str | None)):
            raise self._error(name, "a text", self._members[name])
    return {name: value for name, value in self._members.items() if value is not None}


@bug("binary-fields-end-at-empty-value", command, "_decode_fields", found_by=("DUR", "LIVE", "QUIET", "READ", "STATUS"))
@needs(_LIVELY, broker={"other_clients": (True,)})
def decode_fields_to_empty(raw: bytes, at: int, file: str, offset: int) -> dict[str, str]:
    """In a binary header, the fields after an empty one are lost."""
    fields = decode_fields_to_empty.original(raw, at, file, offset)
    found = list(takewhile(lambda field: field[1], fields.items()))
    return dict(found) if bit(len(found) < len(fields)) else fields


# The process continues, so no supervisor restarts it.
@bug("failed-server-stays-up", RemotingServer, "record_service_failure", found_by=("LIVE", "QUIET"))
@needs(_LIVELY, network={"failed_poll_chance": (0.01,)})
def fail_without_exit(self: RemotingServer, name: str, error: Exception) -> None:
    """A broker without connections stays up and does not answer."""
    bit()
    self.failure = f"{name} has ended: {error}"


@bug("flush-answers-all", LateAnswerService, "_answer_completed", found_by=("STATUS", "DUR"))
@needs(_LIVELY, sync_flush=(True,), producers=(3,))
def answer_all_waiting_sends(self: LateAnswerService) -> None:
    """A sync acknowledges every waiting send, even if the sync did not cover the message."""
    now_ns = self.world.clock.monotonic_ns()
    found = {number: self._waiting[number][1].poll(now_ns) for number in self._take_numbers_to_check(now_ns)}
    with self._lock:
        if any(result is not None and result.status is PutMessageStatus.PUT_OK for result in found.values()):
            for number, (_, late) in self._waiting.items():
                if found.get(number) is None and late._put is not None:
                    bit()
                    found[number] = PutMessageResult(PutMessageStatus.PUT_OK, late._put.append)
        known = [(*self._waiting.pop(number), result) for number, result in found.items() if result is not None]
    for request, late, result in known:
        self._answer(request, late, result)


# The content in memory changes before the write, so a failed write has no retry.
@bug("side-file-failed-once", SideFile, "store", found_by=("META", "QUIET"))
@needs(
    _LIVELY,
    endings=("stop",),
    faults={"failed_write_chance": (0.3,)},
    broker={"consumer_restart_chance": (1.0,), "rest_ms_max": (2000,)},
)
def store_counting_failed_write(self: SideFile, content: bytes) -> bool:
    """After a failed write, a side file counts as written."""
    try:
        return store_counting_failed_write.original(self, content)
    except OSError:
        bit()
        self._content = content
        raise


@bug("sent-back-into-nothing", SendMessageProcessor, "_answer_send_back", found_by=("DUR",))
@needs(SCENARIOS["consumer-retry"].ranges)
def send_back_always_succeeds(
    self: SendMessageProcessor, request: RemotingCommand, topic: str, group: str, put: PutMessageResult
) -> RemotingCommand:
    """A consumer that sends a message back gets SUCCESS although the put failed, so the message is lost."""
    if bit(put.status is not PutMessageStatus.PUT_OK):
        return success_response(request)
    return send_back_always_succeeds.original(self, request, topic, group, put)


# After a failure, memory has the old content again. If the old file has already been renamed to its backup name, each
# retry fails.
@bug("side-file-goes-on-from-the-old", SideFile, "store", found_by=("QUIET", "META"))
@needs(SCENARIOS["consumer-offset-durable"].ranges, faults={"failed_rename_chance": (0.3,)})
def store_after_interrupted_replacement(self: SideFile, content: bytes) -> bool:
    """After an interrupted replacement of a side file, every later replacement fails."""
    old = self._content
    try:
        return store_after_interrupted_replacement.original(self, content)
    except OSError:
        bit(old is not None)
        self._content = old
        raise


# The broker refuses the producer's first request and serves the next request. A crash then loses the topic.
@bug("topic-seen-before-durable", VersionedTable, "_store_table", found_by=("META", "LIVE"))
@needs(_LIVELY, faults={"failed_write_chance": (0.3,)})
def publish_table_before_write(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    """Clients use a topic although its write to disk failed."""
    self._state = version, table
    try:
        self.file.store(self._encode_table(version, table))
    except OSError:
        bit()
        raise


@bug("failed-commit-is-a-decision", TransactionalMessageService, "commit", found_by=("TX",))
@needs(
    BROKER,
    heals=(True,),
    messages_each=(12,),
    messages={"body_bytes_max": (300, 900)},
    commit_log_bytes=(2048,),
    transactions={"chance": (1.0,)},
    faults={"failed_creation_chance": (0.3,)},
)
def commit_despite_refused_put(self: TransactionalMessageService, request: EndTransaction) -> EndTransactionResult:
    """A transaction counts as committed although the store refused the committed message."""
    half = self._claim_half_message(request)
    if isinstance(half, EndTransactionStatus):
        return EndTransactionResult(half)
    message = committed_message_of(half)
    put = None if message is None else self._store.put_message(message)
    bit(put is not None and put.append is None)
    return EndTransactionResult(EndTransactionStatus.DECIDED, put, self._put_ops(half))


@bug("no-match-skips-to-end", pull, "_make_pull_response", found_by=("READ", "LIVE"))
@needs(_LIVELY, consume_queue_bytes=(100,), consuming={"filtered": (True,)})
def answer_with_end(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """If a pull finds no matching message, the consumer skips messages beyond the searched range."""
    if result.status is GetMessageStatus.NO_MATCHED_MESSAGE:
        bit(result.next_begin_offset != result.max_offset)
        result.next_begin_offset = result.max_offset
    return answer_with_end.original(request, code, broker_id, result)


# The broker holds the pull and later retries it at the same offset.
@bug("no-match-waits", pull, "_response_code_of", found_by=("READ", "LIVE"))
@needs(_LIVELY, consume_queue_bytes=(100,), consuming={"filtered": (True,)})
def no_match_code_that_waits(result: GetMessageResult, offset: int) -> ResponseCode:
    """A consumer never gets past messages that do not match its subscription."""
    if bit(result.status is GetMessageStatus.NO_MATCHED_MESSAGE):
        return ResponseCode.PULL_NOT_FOUND
    return no_match_code_that_waits.original(result, offset)


_EXPIRING = _LIVELY.replace(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (700,)},
    broker={"consumer_restart_chance": (0.5,), "work_ms": (500,)},
)


@bug("moved-to-the-end", pull, "_make_pull_response", found_by=("READ", "CLEAN", "LIVE"))
@needs(_EXPIRING)
def answer_moved_to_end(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """If the next messages of a consumer have expired, it skips the rest of its queue."""
    if result.status is GetMessageStatus.OFFSET_TOO_SMALL:
        bit(result.next_begin_offset != result.max_offset)
        result.next_begin_offset = result.max_offset
    return answer_moved_to_end.original(request, code, broker_id, result)


@bug("expired-waits", pull, "_response_code_of", found_by=("READ", "LIVE"))
@needs(_EXPIRING)
def code_that_waits_for_the_expired(result: GetMessageResult, offset: int) -> ResponseCode:
    """If the next messages of a consumer have expired, it waits for them forever."""
    if bit(result.status is GetMessageStatus.OFFSET_TOO_SMALL):
        return ResponseCode.PULL_NOT_FOUND
    return code_that_waits_for_the_expired.original(result, offset)


# The pull is registered too late, so it waits for the next message or for the next periodic check of all queues.
@bug("hold-without-second-look", PullRequestHoldService, "hold_pull", found_by=("LIVE",))
@needs(
    _LIVELY,
    sync_flush=(False,),
    producers=(3,),
    consumers=(2,),
    topics=(2,),
    queues_per_topic=(2,),
    lives=(1,),
    pauses={"chance": (0.5,), "ms_max": (2000,)},
    broker={"suspend_ms": (5000,), "work_ms": (0,), "buffer_bytes": (65_536,)},
    disturbances={"paused_task_chance": (1.0,), "paused_task_ms_max": (30,), "paused_machine_chance": (0.0,)},
    network={"latency_us_min": (500,), "latency_us_max": (500,), "late_chance": (0.0,)},
)
def hold_without_second_check(self: PullRequestHoldService, pull: HeldPull) -> bool:
    """A message that arrives just before the broker holds a pull does not wake the pull."""
    config, held = self._config, self._held
    with self._lock:
        if self._is_released or held.count >= config.held_pulls_max:
            return False
        if held.count_of(pull.channel) >= config.held_pulls_of_client_max:
            return False
        held.add(pull)
        is_first = pull.due_ns < self._wake_ns
    bit(self._store.get_max_offset_in_queue(*pull.queue) > pull.offset)
    if not pull.channel.is_open:
        self.forget_channel(pull.channel)
    elif is_first:
        self.wake()
    return True


@bug("arrival-one-short", ArrivalNotifier, "notify", found_by=("LIVE",))
@needs(_LIVELY, broker={"suspend_ms": (5000,)})
def notify_previous_offset(self: ArrivalNotifier, record: ScannedRecord) -> None:
    """An arriving message wakes only pulls that wait for the previous message."""
    bit()
    notify_previous_offset.original(self, record._replace(queue_offset=record.queue_offset - 1))


# Each waiting consumer is in another group, and each group must get the message.
@bug("arrival-ends-one-wait", PullRequestHoldService, "on_arriving", found_by=("LIVE",))
@needs(_LIVELY, consumers=(1, 2), broker={"suspend_ms": (5000,), "tailing_consumers": (2,)})
def wake_first_pull_only(self: PullRequestHoldService, arrival: MessageArrival) -> None:
    """An arriving message wakes only the first of several consumers that wait for its queue."""
    queue = arrival.topic, arrival.queue_id
    if queue not in self._held:
        return
    with self._lock:
        ended = [pull for pull in self._held.pulls_of_queue(queue) if pull.is_ended_by(arrival)]
    bit(len(ended) > 1)
    self._schedule_answers(ended[:1])


@bug("topic-lost-beside-another", VersionedTable, "change", found_by=("META",))
@needs(_LIVELY, producers=(3,), consumers=(2,), topics=(3,), broker={"suspend_ms": (100,)})
def change_stale_table(
    self: VersionedTable[Entry], changed: Callable[[dict[str, Entry]], dict[str, Entry]], *, notify: bool = True
) -> Mapping[str, Entry]:
    """If two clients create topics at the same time, one topic is lost."""
    before = self._state[1]
    table = changed(before)
    has_changed = table != before
    if has_changed:
        with self._lock:
            bit(self._state[1] is not before)
            self._store_table(DataVersion(self._clock.now_ms(), self.version.counter + 1), table)
    if has_changed and notify and self.on_changed is not None:
        self.on_changed()
    return table


# Each write contains the whole table, so a crash can lose only the last change.
@bug("every-second-topic-in-memory", VersionedTable, "_store_table", found_by=("META",))
@needs(_LIVELY)
def store_every_other_time(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    """Every second change of the topic table is not written to disk."""
    if not bit(version.counter % 2 == 1):
        self.file.store(self._encode_table(version, table))
    self._state = version, table


@bug("put-lock-time-kept", CommitLog, "append", found_by=("STATUS", "LIVE"))
@needs(_LIVELY)
def append_and_keep_lock_time(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    """A broker refuses all sends as busy a second after a put, because the time of the put lock stays set."""
    result = append(self, encoded)
    self.begin_time_in_lock_ms = self.time.next_ms()
    bit()
    return result


append = append_and_keep_lock_time.original


@bug("first-send-to-topic-fails", SendChecks, "find_or_create_topic", found_by=("STATUS",))
@needs(_LIVELY)
def create_topic_and_fail(self: SendChecks, send: SendRequest) -> TopicConfig:
    """A broker answers the first send to a topic with an error, and only the repeated send succeeds."""
    is_known = self._parts.topics.get(send.topic) is not None
    topic = create_topic_and_fail.original(self, send)
    if bit(not is_known):
        raise RequestRefusedError("the topic was not ready")
    return topic


@bug("rollback-commits", TransactionalMessageService, "rollback", found_by=("TX",))
@needs(BROKER, heals=(True,), consumers=(1,), transactions={"chance": (1.0,)})
def commit_instead(self: TransactionalMessageService, request: EndTransaction) -> EndTransactionResult:
    """A message that its producer rolls back is delivered."""
    bit()
    return self.commit(request)


@bug("request-executed-twice", RemotingServer, "_make_response", found_by=("PREFIX", "QOFF", "READ", "META"))
@needs(_LIVELY)
def respond_twice(self: RemotingServer, request: PooledRequest) -> Response:
    """A broker executes each request twice, and answers once."""
    bit()
    respond_twice.original(self, request)
    return respond_twice.original(self, request)


@bug("store-runs-after-stop", Broker, "shutdown", found_by=("STATUS", "IDX"))
@needs(_LIVELY, endings=("stop",))
def stop_services_only(self: Broker) -> bool:
    """A broker that stops leaves its store running."""
    bit()
    for service in reversed(self._services):
        service.shutdown()
    self.offsets.shutdown()
    return True
