"""Answers to sends and pulls: each response of a broker is checked; those to sends are recorded in the ledger.

    SUCCESS                 the put is stored, and as durable as the settings promise
    timeout, no slave       the put is stored, and may not be durable
    busy, illegal, no room  the put is not stored
    any other code          the put may be stored or not

A response from before the broker's last start may arrive late. Under ASYNC_FLUSH a late response promises no
durability.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ....store.broker.requests import ResponseCode
from ....store.formats.host import decode_message_id
from ....store.formats.messages import GetMessageStatus, PutMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.evidence import Violation, record_tried
from ...oracle.group_delivery import Queue
from ...oracle.invariants import status
from ...oracle.invariants.consume_queues import check_answered_place
from ...oracle.invariants.consumers import PullBounds
from ...oracle.invariants.lookups import QueueBounds
from ...oracle.put_entry import PutEntry
from .account import BrokerAccount
from .message_options import Subscription

_STATUSES: dict[int, PutMessageStatus] = {
    ResponseCode.SUCCESS: PutMessageStatus.PUT_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: PutMessageStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: PutMessageStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.SYSTEM_BUSY: PutMessageStatus.OS_PAGECACHE_BUSY,
    ResponseCode.MESSAGE_ILLEGAL: PutMessageStatus.MESSAGE_ILLEGAL,
    ResponseCode.SERVICE_NOT_AVAILABLE: PutMessageStatus.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION: PutMessageStatus.MESSAGE_ILLEGAL,
    ResponseCode.TOPIC_NOT_EXIST: PutMessageStatus.MESSAGE_ILLEGAL,
}

PULL_CODES: dict[GetMessageStatus, ResponseCode] = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
"""Source: RocketMQ PullMessageProcessor. NO_MESSAGE_IN_QUEUE is PULL_NOT_FOUND for offset 0, else PULL_OFFSET_MOVED."""
_EMPTY = {True: ResponseCode.PULL_NOT_FOUND, False: ResponseCode.PULL_OFFSET_MOVED}
_STATUS_OF_REMARK: dict[str | None, GetMessageStatus] = {each.value: each for each in GetMessageStatus}
PULLED = frozenset(PULL_CODES.values())
"""If the answer has one of these codes, the broker has stored the commit offset of the pull."""


def put_status_of_response(code: int) -> PutMessageStatus:
    return _STATUSES.get(code, PutMessageStatus.UNKNOWN_ERROR)


def note_answer(
    account: BrokerAccount,
    puts: Sequence[PutEntry],
    response: RemotingCommand,
    refusal: PutMessageStatus | None,
    *,
    asked_in: int,
    now_ns: int,
    makes_topic: bool = True,
) -> Iterator[Violation]:
    """Record the response to the puts of one send, and yield its violations.

    asked_in: the number of the broker start before the send. refusal: the required refusal, if any. makes_topic:
    whether the broker creates the topic for its first send.
    """
    ledger, fields, first = account.ledger, response.ext_fields, puts[0]
    is_late, is_stored = asked_in != ledger.life, response.code == ResponseCode.SUCCESS
    account.hits["answer from a dead broker"] += is_late and is_stored
    yield from status.check_refusal(first, refusal, _status_or_unknown(response.code))
    if is_stored and makes_topic:
        ledger.topics[first.topic] = max(first.queue_id, ledger.topics.get(first.topic, 0))
    if "msgId" in fields:
        if not is_late:  # an earlier process of the broker may have had other settings
            yield from _check_region_and_trace(account, first, fields)
        if is_late and not (account.sync_flush and first.wait and is_stored):
            return
        queue_id, queue_offset = int(fields["queueId"]), int(fields["queueOffset"])
        ids = fields["msgId"].split(",")
        if len(ids) != len(puts):
            summary = f"{first.name} and those sent with it are answered with other places than theirs"
            yield Violation("QOFF", summary, field="msgId", expected=f"{len(puts)}", found=fields["msgId"])
        for number, (put, message_id) in enumerate(zip(puts, ids, strict=False)):
            host, log_offset = decode_message_id(message_id)
            place = {"queue_id": queue_id, "queue_offset": queue_offset + number, "physical_offset": log_offset}
            yield from check_answered_place(ledger, put, host=host, **place)
            put.physical_offset, put.queue_offset = log_offset, queue_offset + number
            if is_late:
                put.is_durable = True
                ledger.promise(put)
            elif is_stored and put.waiting_place is None and account.is_readable_now(put):
                account.pull_times.record_answered_put(put.place, put.queue_offset, put.properties, now_ns)
    for put in puts:
        put.status, put.answered_ns = put_status_of_response(response.code), now_ns


def check_chosen_queue(put: PutEntry, queue_id: int, queues: int) -> Iterator[Violation]:
    """QOFF: yield a queue that the broker has chosen, although producers may not write to it."""
    record_tried("QOFF")
    if not 0 <= queue_id < queues:
        summary = f"the broker has put {put.name} into a queue that is not for producers"
        yield Violation("QOFF", summary, "", -1, "queueId", f"0 to {queues - 1}", str(queue_id))


def _check_region_and_trace(account: BrokerAccount, put: PutEntry, fields: Mapping[str, str]) -> Iterator[Violation]:
    """STATUS: yield an answer with another region or trace switch than the settings."""
    known = {"MSG_REGION": account.tables.setting("regionId", put.asked_ns)}
    known["TRACE_ON"] = account.tables.setting("traceOn", put.asked_ns)
    wanted = {name: text for name, text in known.items() if text is not None}
    found = {name: fields.get(name) for name in wanted}
    if found != wanted:
        summary = f"the answer to {put.name} has another region or trace switch than the broker"
        yield Violation("STATUS", summary, "", -1, "answer", str(wanted), str(found))


def _status_or_unknown(code: int) -> PutMessageStatus:
    known = (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION)
    return put_status_of_response(code) if code in known else PutMessageStatus.UNKNOWN_ERROR


def bounds_of_pull(response: RemotingCommand) -> PullBounds:
    return PullBounds(*(int(response.ext_fields[name]) for name in ("minOffset", "nextBeginOffset", "maxOffset")))


class TimedPull(NamedTuple):
    """A pull, and its times in virtual ns."""

    queue: Queue
    position: int
    host: str
    suspend_ms: int
    before: QueueBounds
    """As for `PullAnswers.check_answer`."""
    began_ns: int
    """Before the request."""
    sent_ns: int
    """After the connection was made."""

    def check_times(
        self, account: BrokerAccount, response: RemotingCommand, now_ns: int, wanted: Subscription
    ) -> Iterator[Violation]:
        """Yield a master's answer since its last start that came too late or too early."""
        times, body_bytes = account.pull_times, len(response.body)
        asking, wants = (self.queue, self.position, self.host), wanted.wants
        yield from times.check_pull_time(
            *asking, wants=wants, sent_ns=self.sent_ns, now_ns=now_ns, body_bytes=body_bytes
        )
        if response.code == ResponseCode.PULL_OFFSET_MOVED and self._is_moved_at_once(response):
            yield from times.check_move_time(self.queue, self.host, sent_ns=self.sent_ns, now_ns=now_ns)
        if response.code == ResponseCode.PULL_NOT_FOUND:
            asked, early = (self.queue, self.host, self.suspend_ms), not _is_due_answer(response)
            yield from times.check_hold_time(
                *asked, began_ns=self.began_ns, sent_ns=self.sent_ns, now_ns=now_ns, may_be_early=early
            )

    def check_answer(
        self,
        account: BrokerAccount,
        response: RemotingCommand,
        now_ns: int,
        wanted: Subscription,
        offsets: Collection[int] | None = None,
        most: int | None = None,
    ) -> Iterator[Violation]:
        """As `check_times`, and yield each error in the code, status and offsets.

        For offsets see `PullAnswers.check_answer`. most: maxMsgNums of the pull; None: not checked.
        """
        yield from self.check_times(account, response, now_ns, wanted)
        if response.code not in PULLED:
            return
        queue, position = self.queue, self.position
        if offsets is not None and most is not None and len(offsets) > most:
            summary = f"a pull of {queue[0]}/{queue[1]} gets more messages than it asked for"
            yield Violation("READ", summary, field="messages", expected=f"<= {most}", found=str(len(offsets)))
        name = f"a pull of {queue[0]}/{queue[1]} at {position}"
        found = _STATUS_OF_REMARK.get(response.remark)
        if found is None:
            yield Violation("READ", f"{name} has no status", field="remark", expected="one", found=str(response.remark))
            return
        code = PULL_CODES.get(found, _EMPTY[position == 0])
        if code != response.code:
            summary = f"{name} with status {found.value} has another code"
            yield Violation("READ", summary, field="code", expected=str(code), found=str(response.code))
        bounds, wants = bounds_of_pull(response), wanted.wants
        yield from account.pulls.check_answer(queue, position, found, bounds, self.before, wants=wants, offsets=offsets)

    def _is_moved_at_once(self, response: RemotingCommand) -> bool:
        """Return whether the broker must not hold this pull. A pull that it holds at the end of a queue may still be
        moved if the first messages expire meanwhile."""
        return response.remark != GetMessageStatus.OFFSET_TOO_SMALL.value or self.position < self.before.low

    def last_look_ns(self, account: BrokerAccount, response: RemotingCommand, now_ns: int) -> int:
        """Return a time before the broker's last look at the queue and its permission."""
        if not _is_due_answer(response):
            return self.began_ns
        return account.pull_times.last_look_ns(self.suspend_ms, began_ns=self.began_ns, now_ns=now_ns)


def _is_due_answer(response: RemotingCommand) -> bool:
    """Return whether a broker sends this answer to a held pull only at the end of its time.

    With OFFSET_FOUND_NULL, the file of the requested offset has expired, but the queue goes on after it. A broker runs
    a held pull again as soon as the queue goes on, and answers even if it then finds no message.
    """
    found_null = GetMessageStatus.OFFSET_FOUND_NULL.value
    return response.code == ResponseCode.PULL_NOT_FOUND and response.remark != found_null
