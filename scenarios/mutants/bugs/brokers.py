"""Bugs of brokers: what a broker keeps of its clients' progress, whom it asks, and where it sends them."""

from collections.abc import Callable, Mapping

from ....store.broker.late_answers import LateAnswers
from ....store.broker.long_polling import HeldPull, PullRequestHoldService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors import pull
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ExtFields, ResponseCode, success
from ....store.broker.router import Channel
from ....store.broker.server import RemotingServer
from ....store.broker.versioned_table import DataVersion, Entry, VersionedTable
from ....store.formats.half_message import EndTransaction, committed
from ....store.formats.messages import GetMessageResult, GetMessageStatus, PutMessageResult, PutMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import Members
from ....store.formats.scan import ScannedRecord
from ....store.queues.dispatch import ArrivalNotifier, MessageArrival
from ....store.services.transaction_service import (
    EndTransactionResult,
    EndTransactionStatus,
    TransactionalMessageService,
)
from ....store.side_file import SideFile
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import Mutant, Patch, bit

_LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))

_original_pull = PullMessageProcessor._pull


# offset-committed-at-delivery: a group's offset moves when messages are given out, and not when they are dealt with.
# Whoever takes over from a consumer that died with them in hand begins behind them.
def _pull_commits_what_it_gives(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    response = _original_pull(self, request, channel, may_hold=may_hold)
    if response is not None and response.body:
        fields = ExtFields(request.ext_fields)
        queue = fields.text("topic"), fields.int32("queueId")
        following = int(response.ext_fields["nextBeginOffset"])
        bit()
        self._parts.offsets.commit_offset(fields.text("consumerGroup"), *queue, following)
    return response


OFFSET_COMMITTED_AT_DELIVERY = Mutant(
    "offset-committed-at-delivery",
    "a group's offset moves when its consumer is given messages, whether or not it ever deals with them",
    (Patch(PullMessageProcessor, "_pull", _pull_commits_what_it_gives),),
    ("META", "LIVE", "QUIET"),
    _LIVELY,
)


# gone-group-loses-progress: when the last member of a group goes, the broker forgets the group, and where it was. All
# of its members may be gone for a moment: who comes next begins with what the group has had long ago.
_original_unregister_filters = BrokerParts._unregister_filters


def _forget_group(self: BrokerParts, group: str) -> None:
    _original_unregister_filters(self, group)
    bit()
    self.offsets.remove_group(group)


GONE_GROUP_LOSES_PROGRESS = Mutant(
    "gone-group-loses-progress",
    "a group whose last member has gone begins again from the start",
    (Patch(BrokerParts, "_unregister_filters", _forget_group),),
    ("META", "QUIET"),
    _LIVELY.replace(broker={"client_death_chance": (0.05,)}),
)


# header-fields-are-texts: a header with a number or a boolean among its fields is damage, and the connection ends.
# Clients in C++ write such headers, so all of their sends fail.
def _texts_only(self: Members) -> dict[str, str]:
    for name in self.names:
        if bit(not isinstance(self._members[name], str | None)):
            raise self._error(name, "a text", self._members[name])
    return dict(self._members)


HEADER_FIELDS_ARE_TEXTS = Mutant(
    "header-fields-are-texts",
    "a header whose fields are not all texts ends its connection, as every header of the C++ client does",
    (Patch(Members, "texts", _texts_only),),
    ("LIVE", "QUIET"),
    _LIVELY.replace(broker={"cpp_clients": (True,)}),
)


# failed-server-stays-up: the task of the connections ends of an error. The process stays up, holds its port and its
# directory, and does not answer. A supervisor has no reason to start another one.
def _fail_and_stay(self: RemotingServer, name: str, error: Exception) -> None:
    bit()
    self.failure = f"{name} has ended: {error}"


FAILED_SERVER_STAYS_UP = Mutant(
    "failed-server-stays-up",
    "a process whose server has lost its connections stays up, listens, and does not answer",
    (Patch(RemotingServer, "fail", _fail_and_stay),),
    ("LIVE", "QUIET"),
    _LIVELY.replace(network={"failed_poll_chance": (0.01,)}),
)


# flush-answers-all: a sync is over, and whoever waits for one is answered, also those whose messages came while it ran.
def _answer_all_that_wait(self: LateAnswers) -> None:
    now_ns = self.world.clock.monotonic_ns()
    found = {number: self._waiting[number][1].look(now_ns) for number in self._take_looks(now_ns)}
    with self._lock:
        if any(result is not None and result.status is PutMessageStatus.PUT_OK for result in found.values()):
            for number, (_, late) in self._waiting.items():
                if found.get(number) is None and late._put is not None:
                    bit()
                    found[number] = PutMessageResult(PutMessageStatus.PUT_OK, late._put.append)
        known = [(*self._waiting.pop(number), result) for number, result in found.items() if result is not None]
    for request, late, result in known:
        self._answer(request, late, result)


FLUSH_ANSWERS_ALL = Mutant(
    "flush-answers-all",
    "a sync answers every send that waits, also those whose messages it did not make durable",
    (Patch(LateAnswers, "_answer_known", _answer_all_that_wait),),
    ("STATUS", "DUR"),
    _LIVELY.replace(sync_flush=(True,), producers=(3,)),
)


# side-file-failed-once: a side file remembers what it is to hold before it holds it. A version that could not be
# written once is never written again unless it changes.
_original_store = SideFile.store


def _store_or_believe(self: SideFile, content: bytes) -> bool:
    try:
        return _original_store(self, content)
    except OSError:
        bit()
        self._content = content
        raise


SIDE_FILE_FAILED_ONCE = Mutant(
    "side-file-failed-once",
    "a side file that could not be written is taken for written the next time",
    (Patch(SideFile, "store", _store_or_believe),),
    ("META", "QUIET"),
    _LIVELY.replace(
        endings=("stop",),
        faults={"failed_write_chance": (0.3,)},
        broker={"consumer_restart_chance": (1.0,), "rest_ms_max": (2_000,)},
    ),
)


# sent-back-into-nothing: a message that a consumer sends back is answered SUCCESS though it could not be put. The
# consumer is done with it, and nobody is given it again.
_original_answer_back = SendMessageProcessor._answer_back


def _answer_back_at_any_rate(
    self: SendMessageProcessor, request: RemotingCommand, topic: str, group: str, put: PutMessageResult
) -> RemotingCommand:
    if bit(put.status is not PutMessageStatus.PUT_OK):
        return success(request)
    return _original_answer_back(self, request, topic, group, put)


SENT_BACK_INTO_NOTHING = Mutant(
    "sent-back-into-nothing",
    "a message that is sent back while nothing can be put is answered SUCCESS, and gone",
    (Patch(SendMessageProcessor, "_answer_back", _answer_back_at_any_rate),),
    ("DUR",),
    SCENARIOS["what-is-sent-back-is-given-again"].ranges,
)


# side-file-goes-on-from-the-old: a side file that could not be replaced goes on from the version before. If that has
# its other name already, each attempt to come fails at it.
def _store_from_the_old(self: SideFile, content: bytes) -> bool:
    old = self._content
    try:
        return _original_store(self, content)
    except OSError:
        bit(old is not None)
        self._content = old
        raise


SIDE_FILE_GOES_ON_FROM_THE_OLD = Mutant(
    "side-file-goes-on-from-the-old",
    "a side file whose replacement failed half-way is never replaced again",
    (Patch(SideFile, "store", _store_from_the_old),),
    ("QUIET", "META"),
    SCENARIOS["progress-survives-every-crash"].ranges.replace(faults={"failed_rename_chance": (0.3,)}),
)


# topic-seen-before-durable: a topic is in use before it is on the disk. If the disk fails, its producer is refused, and
# the next one is answered; a crash takes the topic, and consumers are answered that there is none.
def _store_seen_first(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    self._state = version, table
    try:
        self.file.store(self._encoded(version, table))
    except OSError:
        bit()
        raise


TOPIC_SEEN_BEFORE_DURABLE = Mutant(
    "topic-seen-before-durable",
    "a topic that could not be written is used all the same",
    (Patch(VersionedTable, "_store", _store_seen_first),),
    ("META", "LIVE"),
    _LIVELY.replace(faults={"failed_write_chance": (0.3,)}),
)


# failed-commit-is-a-decision: a commit whose message could not be put is noted as decided like one that could.
def _commit_whatever(self: TransactionalMessageService, request: EndTransaction) -> EndTransactionResult:
    half = self._claimed(request)
    if isinstance(half, EndTransactionStatus):
        return EndTransactionResult(half)
    message = committed(half)
    put = None if message is None else self._store.put_message(message)
    bit(put is not None and put.append is None)
    return EndTransactionResult(EndTransactionStatus.DECIDED, put, self._conclude(half))


FAILED_COMMIT_IS_A_DECISION = Mutant(
    "failed-commit-is-a-decision",
    "a half message is done with although the message that it was to become was refused",
    (Patch(TransactionalMessageService, "commit", _commit_whatever),),
    ("TX",),
    BROKER.replace(
        heals=(True,),
        messages_each=(12,),
        messages={"body_bytes_max": (300, 900)},
        commit_log_bytes=(2048,),
        transactions={"chance": (1.0,)},
        faults={"failed_creation_chance": (0.3,)},
    ),
)


# no-match-skips-to-end: a pull that finds nothing its group wants in one file of the queue is sent behind the queue's
# last message, and not behind what was looked at.
_original_answer = pull._answer


def _answer_with_end(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    if result.status is GetMessageStatus.NO_MATCHED_MESSAGE:
        bit(result.next_begin_offset != result.max_offset)
        result.next_begin_offset = result.max_offset
    return _original_answer(request, code, broker_id, result)


NO_MATCH_SKIPS_TO_END = Mutant(
    "no-match-skips-to-end",
    "a consumer that is given nothing passes over messages that nobody has looked at",
    (Patch(pull, "_answer", _answer_with_end),),
    ("LIVE",),
    _LIVELY.replace(consume_queue_bytes=(100,), consuming={"filtered": (True,)}),
)


# no-match-waits: a pull that finds nothing its group wants is held like one that finds nothing. It is carried out again
# when something arrives, from where it began, and answered that there is nothing, for ever.
_original_code_of = pull._code_of


def _code_that_waits(result: GetMessageResult, offset: int) -> ResponseCode:
    if bit(result.status is GetMessageStatus.NO_MATCHED_MESSAGE):
        return ResponseCode.PULL_NOT_FOUND
    return _original_code_of(result, offset)


NO_MATCH_WAITS = Mutant(
    "no-match-waits",
    "a consumer never gets past messages that its group does not want",
    (Patch(pull, "_code_of", _code_that_waits),),
    ("LIVE",),
    _LIVELY.replace(consume_queue_bytes=(100,), consuming={"filtered": (True,)}),
)


# moved-to-the-end: a pull of what retention has removed is sent behind the queue's last message, and not to its first.
def _answer_moved_to_end(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    if result.status is GetMessageStatus.OFFSET_TOO_SMALL:
        bit(result.next_begin_offset != result.max_offset)
        result.next_begin_offset = result.max_offset
    return _original_answer(request, code, broker_id, result)


_EXPIRING = _LIVELY.replace(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (700,)},
    broker={"consumer_restart_chance": (0.5,), "work_ms": (500,)},
)
MOVED_TO_THE_END = Mutant(
    "moved-to-the-end",
    "a consumer whose next messages have expired misses all that is left of its queue",
    (Patch(pull, "_answer", _answer_moved_to_end),),
    ("CLEAN", "LIVE"),
    _EXPIRING,
)


# expired-waits: a pull of what retention has removed is held like one that finds nothing, and answered like one.
def _code_that_waits_for_the_expired(result: GetMessageResult, offset: int) -> ResponseCode:
    if bit(result.status is GetMessageStatus.OFFSET_TOO_SMALL):
        return ResponseCode.PULL_NOT_FOUND
    return _original_code_of(result, offset)


EXPIRED_WAITS = Mutant(
    "expired-waits",
    "a consumer whose next messages have expired waits for them for ever",
    (Patch(pull, "_code_of", _code_that_waits_for_the_expired),),
    ("LIVE",),
    _EXPIRING,
)


# hold-without-second-look: a pull that found nothing is held without another look at its queue. A message that has come
# between the two has notified nobody, and the pull waits for the next one, or for the next look at all queues.
def _hold_unseeing(self: PullRequestHoldService, pull: HeldPull) -> bool:
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
        self.forget(pull.channel)
    elif is_first:
        self.wake()
    return True


HOLD_WITHOUT_SECOND_LOOK = Mutant(
    "hold-without-second-look",
    "a message that comes as a pull begins to be held leaves it waiting",
    (Patch(PullRequestHoldService, "hold", _hold_unseeing),),
    ("LIVE",),
    _LIVELY.replace(
        sync_flush=(False,),
        producers=(3,),
        consumers=(2,),
        topics=(2,),
        queues_per_topic=(2,),
        lives=(1,),
        pauses={"chance": (0.5,), "ms_max": (2_000,)},
        broker={"suspend_ms": (5_000,), "work_ms": (0,), "buffer_bytes": (65_536,)},
        disturbances={
            "paused_task_chance": (1.0,),
            "paused_task_ms_max": (30,),
            "paused_machine_chance": (0.0,),
        },
        network={"latency_us_min": (500,), "latency_us_max": (500,), "late_chance": (0.0,)},
    ),
)


# arrival-one-short: what has arrived ends the waits for what is in front of it.
_original_notify = ArrivalNotifier.notify


def _notify_one_short(self: ArrivalNotifier, record: ScannedRecord) -> None:
    bit()
    _original_notify(self, record._replace(queue_offset=record.queue_offset - 1))


ARRIVAL_ONE_SHORT = Mutant(
    "arrival-one-short",
    "an arriving message does not end the wait for it",
    (Patch(ArrivalNotifier, "notify", _notify_one_short),),
    ("LIVE",),
    _LIVELY.replace(broker={"suspend_ms": (5_000,)}),
)


# arrival-ends-one-wait: a message is for one consumer. It is for one of each group, and several groups wait.
def _on_arriving_for_one(self: PullRequestHoldService, arrival: MessageArrival) -> None:
    queue = arrival.topic, arrival.queue_id
    if queue not in self._held:
        return
    with self._lock:
        ended = [pull for pull in self._held.of_queue(queue) if pull.wants(arrival)]
    bit(len(ended) > 1)
    self._end_waits(ended[:1])


ARRIVAL_ENDS_ONE_WAIT = Mutant(
    "arrival-ends-one-wait",
    "of several consumers that wait for a queue, the first alone is given a message when it comes",
    (Patch(PullRequestHoldService, "on_arriving", _on_arriving_for_one),),
    ("LIVE",),
    _LIVELY.replace(consumers=(1, 2), broker={"suspend_ms": (5_000,), "tailing_consumers": (2,)}),
)


# topic-lost-beside-another: a table is read and changed before its lock is taken, so that readers wait for no disk.
def _change_what_was_read(
    self: VersionedTable[Entry], changed: Callable[[dict[str, Entry]], dict[str, Entry]]
) -> Mapping[str, Entry]:
    before = self._state[1]
    table = changed(before)
    has_changed = table != before
    if has_changed:
        with self._lock:
            bit(self._state[1] is not before)
            self._store(DataVersion(self._clock.now_ms(), self.version.counter + 1), table)
    if has_changed and self.on_changed is not None:
        self.on_changed()
    return table


TOPIC_LOST_BESIDE_ANOTHER = Mutant(
    "topic-lost-beside-another",
    "of two topics that are made at once, one is lost",
    (Patch(VersionedTable, "change", _change_what_was_read),),
    ("META",),
    _LIVELY.replace(producers=(3,), consumers=(2,), topics=(3,), broker={"suspend_ms": (100,)}),
)


# every-second-topic-in-memory: a table is written every other time that it changes, for each write has all of it.
def _store_every_other_time(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    if not bit(version.counter % 2 == 1):
        self.file.store(self._encoded(version, table))
    self._state = version, table


EVERY_SECOND_TOPIC_IN_MEMORY = Mutant(
    "every-second-topic-in-memory",
    "every other change of topics is in memory only",
    (Patch(VersionedTable, "_store", _store_every_other_time),),
    ("META",),
    _LIVELY,
)
