"""What the ledger knows of a put after a broker's response to it."""

from dataclasses import replace

import pytest

from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PLAIN, Knowledge, PutEntry
from tornlog.scenarios.runs.broker.account import BrokerAccount
from tornlog.scenarios.runs.broker.answers import note_answer
from tornlog.store.broker.requests import ResponseCode
from tornlog.store.formats.host import Host, encode_message_id
from tornlog.store.formats.remoting.command import RemotingCommand

STORED = {"msgId": encode_message_id(Host(*PLAIN.store_host), 500), "queueId": "0", "queueOffset": "3"}


def put_after(
    code: ResponseCode, fields: dict[str, str], *, sync_flush: bool = False, is_late: bool = False
) -> tuple[PutEntry, BrokerAccount]:
    """Return a put after its answer, and what is known of the broker."""
    account = BrokerAccount(Ledger(), sync_flush)
    put = PutEntry("m0", "T0", 0, "", b"body", b"KEYS\1m0", True, 0)
    account.ledger.ask(put)
    response = RemotingCommand(code, 0, ext_fields=fields)
    assert not list(note_answer(account, put, response, asked_in=-is_late, now_ns=7))
    return put, account


@pytest.mark.parametrize(
    ("code", "fields", "knowledge"),
    [
        (ResponseCode.SUCCESS, STORED, Knowledge.ACKNOWLEDGED),
        (ResponseCode.FLUSH_DISK_TIMEOUT, STORED, Knowledge.UNKNOWN),
        (ResponseCode.SYSTEM_BUSY, {}, Knowledge.REFUSED),
        (ResponseCode.SYSTEM_ERROR, {}, Knowledge.UNKNOWN),
    ],
)
def test_an_answer_says_whether_a_put_is_stored_and_where(
    code: ResponseCode, fields: dict[str, str], knowledge: Knowledge
) -> None:
    put, account = put_after(code, fields)
    assert put.knowledge is knowledge
    assert put.physical_offset == (500 if fields else None)
    assert account.ledger.topics == ({"T0": 0} if code == ResponseCode.SUCCESS else {})


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_late_answer_promises_what_the_ended_life_did(*, sync_flush: bool) -> None:
    put, account = put_after(ResponseCode.SUCCESS, STORED, sync_flush=sync_flush, is_late=True)
    assert list(account.ledger.promised) == ["m0"] * sync_flush
    assert (put.physical_offset, put.is_durable) == ((500, True) if sync_flush else (None, False))
    assert account.hits["late answer"] == 1


def test_an_answer_with_the_place_of_another_put_is_a_violation() -> None:
    put, account = put_after(ResponseCode.SUCCESS, STORED)
    other = replace(put, name="m1", properties=b"KEYS\1m1", asked_ns=9, queue_offset=None, physical_offset=None)
    account.ledger.ask(other)
    response = RemotingCommand(ResponseCode.SUCCESS, 0, ext_fields=STORED)
    (found,) = note_answer(account, other, response, asked_in=0, now_ns=9)
    assert (found.invariant, found.field) == ("QOFF", "order")
