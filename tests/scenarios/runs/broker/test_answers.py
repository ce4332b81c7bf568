"""The ledger's entry for a put after a broker's response."""

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.oracle.invariants.lookups import QueueBounds
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.pull_times import PullTimes
from tornlog.scenarios.oracle.put_entry import PLAIN, ProducerKnowledge, PutEntry
from tornlog.scenarios.runs.broker.account import BrokerAccount
from tornlog.scenarios.runs.broker.answers import TimedPull, note_answer
from tornlog.scenarios.runs.broker.message_options import EVERYTHING
from tornlog.store.broker.requests import ResponseCode
from tornlog.store.formats.host import Host, encode_message_id
from tornlog.store.formats.messages import GetMessageStatus, PutMessageStatus
from tornlog.store.formats.remoting.command import RemotingCommand

STORED = {"msgId": encode_message_id(Host(*PLAIN.store_host), 500), "queueId": "0", "queueOffset": "3"}
STORED |= {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def put_after(
    code: ResponseCode, fields: dict[str, str], *, sync_flush: bool = False, is_late: bool = False, wait: bool = True
) -> tuple[PutEntry, BrokerAccount]:
    """Return a put after its answer, and the account of the broker."""
    account = BrokerAccount(Ledger(), sync_flush)
    put = PutEntry("m0", "T0", 0, "", b"body", b"KEYS\1m0", wait, 0)
    account.ledger.record_request(put)
    response = RemotingCommand(code, 0, ext_fields=fields)
    assert not list(note_answer(account, [put], response, None, asked_in=-is_late, now_ns=7))
    return put, account


@pytest.mark.parametrize(
    ("code", "fields", "knowledge"),
    [
        (ResponseCode.SUCCESS, STORED, ProducerKnowledge.ACKNOWLEDGED),
        (ResponseCode.FLUSH_DISK_TIMEOUT, STORED, ProducerKnowledge.UNKNOWN),
        (ResponseCode.SYSTEM_BUSY, {}, ProducerKnowledge.REFUSED),
        (ResponseCode.SYSTEM_ERROR, {}, ProducerKnowledge.UNKNOWN),
    ],
)
def test_an_answer_determines_whether_and_where_a_put_is_stored(
    code: ResponseCode, fields: dict[str, str], knowledge: ProducerKnowledge
) -> None:
    put, account = put_after(code, fields)
    assert put.knowledge is knowledge
    assert put.physical_offset == (500 if fields else None)
    assert account.ledger.topics == ({"T0": 0} if code == ResponseCode.SUCCESS else {})


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_late_answer_has_the_durability_promise_of_the_ended_life(*, sync_flush: bool) -> None:
    put, account = put_after(ResponseCode.SUCCESS, STORED, sync_flush=sync_flush, is_late=True)
    assert list(account.ledger.promised) == ["m0"] * sync_flush
    assert (put.physical_offset, put.is_durable) == ((500, True) if sync_flush else (None, False))
    assert account.hits["answer from a dead broker"] == 1


def test_a_late_answer_to_a_put_without_wait_promises_no_durability() -> None:
    put, account = put_after(ResponseCode.SUCCESS, STORED, sync_flush=True, is_late=True, wait=False)
    assert (account.ledger.promised, put.physical_offset) == ({}, None)


def test_the_answer_to_a_batch_has_the_offsets_of_all_its_messages() -> None:
    account = BrokerAccount(Ledger(), False)
    puts = [PutEntry(f"m{number}", "T0", 0, "", b"body", b"KEYS\1m%d" % number, True, 0) for number in range(2)]
    for put in puts:
        account.ledger.record_request(put)
    ids = ",".join(encode_message_id(Host(*PLAIN.store_host), offset) for offset in (500, 600))
    response = RemotingCommand(ResponseCode.SUCCESS, 0, ext_fields=STORED | {"msgId": ids})
    assert not list(note_answer(account, puts, response, None, asked_in=0, now_ns=7))
    assert [(put.physical_offset, put.queue_offset) for put in puts] == [(500, 3), (600, 4)]
    (found,) = note_answer(account, puts[:1], response, None, asked_in=0, now_ns=7)
    assert (found.invariant, found.field) == ("QOFF", "msgId")


@pytest.mark.parametrize(
    ("code", "refusal", "broken"),
    [
        (ResponseCode.MESSAGE_ILLEGAL, PutMessageStatus.MESSAGE_ILLEGAL, []),
        (ResponseCode.MESSAGE_ILLEGAL, None, ["STATUS"]),
        (ResponseCode.SUCCESS, PutMessageStatus.MESSAGE_ILLEGAL, ["STATUS"]),
        (ResponseCode.SYSTEM_ERROR, PutMessageStatus.MESSAGE_ILLEGAL, []),
        (ResponseCode.TOPIC_NOT_EXIST, None, []),
    ],
)
def test_a_broker_refuses_exactly_the_messages_that_fit_no_record(
    code: ResponseCode, refusal: PutMessageStatus | None, broken: list[str]
) -> None:
    account = BrokerAccount(Ledger(), False)
    put = PutEntry("m0", "T0", 0, "", b"body", b"KEYS\1m0", True, 0)
    account.ledger.record_request(put)
    found = note_answer(account, [put], RemotingCommand(code, 0), refusal, asked_in=0, now_ns=7)
    assert [one.invariant for one in found] == broken


@pytest.mark.parametrize(
    ("code", "is_wrong"), [(ResponseCode.PULL_NOT_FOUND, False), (ResponseCode.PULL_RETRY_IMMEDIATELY, True)]
)
def test_the_code_of_a_pull_follows_from_its_status(code: ResponseCode, *, is_wrong: bool) -> None:
    fields = {"minOffset": "0", "nextBeginOffset": "0", "maxOffset": "0"}
    response = RemotingCommand(code, 0, remark="NO_MESSAGE_IN_QUEUE", ext_fields=fields)
    account = BrokerAccount(Ledger(), sync_flush=False)
    pull = TimedPull(("T0", 0), 0, "10.0.0.30", 0, QueueBounds(0, 0), began_ns=0, sent_ns=0)
    found = [each.field for each in pull.check_answer(account, response, 0, EVERYTHING)]
    assert found == ["code"] * is_wrong


@pytest.mark.parametrize(
    ("status", "is_wrong_after"),
    [
        (GetMessageStatus.OFFSET_OVERFLOW_ONE, {12: True, 100: False, 20_000: True}),
        (GetMessageStatus.OFFSET_FOUND_NULL, {12: False, 100: False, 20_000: True}),
    ],
)
def test_a_pull_whose_file_has_expired_may_be_answered_at_once_but_not_late(
    status: GetMessageStatus, is_wrong_after: dict[int, bool]
) -> None:
    plan = QUIET_PLAN.replace(broker={"serves": True})
    account = BrokerAccount(Ledger(), False, pull_times=PullTimes(plan))
    pull = TimedPull(("T0", 0), 6, "10.0.0.30", 100, QueueBounds(0, 0), began_ns=0, sent_ns=0)
    response = RemotingCommand(ResponseCode.PULL_NOT_FOUND, 0, remark=status.value)

    found = {ms: bool(list(pull.check_times(account, response, ms * 1_000_000, EVERYTHING))) for ms in is_wrong_after}
    assert found == is_wrong_after
    is_held = status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    assert pull.last_look_ns(account, response, 100_000_000) == 100_000_000 * is_held
