"""Answers to sends: notes in the ledger what a broker's response says of a put.

    SUCCESS                 the put has its place, and is as durable as settings promise
    time-out, no slave      the put has its place, and may not be durable
    busy, illegal, no room  the put is not stored
    any other code          the put may be stored or not

A response may have been on its way since a life of the broker that has ended. It promises what that life did: under
ASYNC_FLUSH nothing.
"""

from collections.abc import Iterator

from ....store.broker.requests import ResponseCode
from ....store.formats.host import decode_message_id
from ....store.formats.messages import PutMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.evidence import Violation
from ...oracle.invariants.consume_queues import check_answered_place
from ...oracle.put_entry import PutEntry
from .account import BrokerAccount

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
"""Put statuses by answer. With any other answer the put may be stored or not."""


def put_status(code: int) -> PutMessageStatus:
    """Return the put status that a response stands for."""
    return _STATUSES.get(code, PutMessageStatus.UNKNOWN_ERROR)


def note_answer(
    account: BrokerAccount, put: PutEntry, response: RemotingCommand, *, asked_in: int, now_ns: int
) -> Iterator[Violation]:
    """Note the response to a put that was asked in some life, and yield what is wrong with its place."""
    ledger, fields = account.ledger, response.ext_fields
    is_late, is_stored = asked_in != ledger.life, response.code == ResponseCode.SUCCESS
    account.hits["late answer"] += is_late and is_stored
    if is_stored:
        ledger.topics[put.topic] = max(put.queue_id, ledger.topics.get(put.topic, 0))
    if "msgId" in fields:
        if is_late and not (account.sync_flush and is_stored):
            return
        host, log_offset = decode_message_id(fields["msgId"])
        queue_id, queue_offset = int(fields["queueId"]), int(fields["queueOffset"])
        yield from check_answered_place(
            ledger, put, host=host, queue_id=queue_id, queue_offset=queue_offset, physical_offset=log_offset
        )
        put.physical_offset, put.queue_offset = log_offset, queue_offset
        if is_late:
            put.is_durable = True
            ledger.promise(put)
        elif is_stored and put.detour is None and account.subscription.wants(put.properties):
            account.pull_times.note(put.place, queue_offset, now_ns)
    put.status, put.answered_ns = put_status(response.code), now_ns
