"""Client questions: an operator's answers that contradict what clients received and answered."""

from collections.abc import Sequence

import pytest

from tornlog.scenarios.oracle.client_questions import ANSWER_FIELD, ClientQuestion, ClientQuestions, Receipt
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand

CLIENT = "10.0.0.70@1"
MS = 1_000_000
ANSWER = RemotingCommand(ResponseCode.SYSTEM_ERROR, 0, ext_fields={ANSWER_FIELD: "1"}, body=b"busy")
OFFSETS = RemotingCommand(0, 0, body=b'{"messageQueueTable":{{"queueId":0,"topic":"q"}:7}}')
TIMEOUT = RemotingCommand(ResponseCode.CONSUME_MSG_TIMEOUT, 0)


@pytest.fixture
def questions() -> ClientQuestions:
    return ClientQuestions(late_ms_max=1_000)


def asked(questions: ClientQuestions, *, at_ms: int = 0, ended_ms: int = 5_000, status: bool = False) -> ClientQuestion:
    code, fields = RequestCode.GET_CONSUMER_RUNNING_INFO, {"question": "q"}
    if status:
        code, fields = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "q", "clientAddr": ""}
    clients = [] if status else [CLIENT]
    question = ClientQuestion("q", RemotingCommand(code, 0, ext_fields=fields), clients, None, at_ms * MS)
    question.ended_ns = ended_ms * MS
    questions.add(question)
    return question


def answered(question: ClientQuestion, answer: RemotingCommand, sent_ms: int, *, connected: bool = True) -> None:
    question.receipts[CLIENT] = Receipt(lambda: connected, answer, sent_ms * MS)


def found_in(questions: ClientQuestions, question: ClientQuestion, reply: RemotingCommand) -> list[Violation]:
    return list(questions.check_reply(question, reply, [CLIENT]))


def test_only_the_unchanged_answer_of_the_client_is_passed_on(questions: ClientQuestions) -> None:
    question = asked(questions)
    answered(question, ANSWER, 1)
    assert found_in(questions, question, ANSWER) == []
    changed = RemotingCommand(ResponseCode.SUCCESS, 0, ext_fields=ANSWER.ext_fields, body=ANSWER.body)
    [found] = found_in(questions, question, changed)
    assert found.invariant == "STATUS"
    assert "another answer" in found.summary


@pytest.mark.parametrize(
    ("sent_ms", "connected", "summaries"),
    [(3_999, True, ["does not get the answer"]), (4_001, True, []), (3_999, False, [])],
    ids=["in time", "late", "over a connection that has ended"],
)
def test_a_timeout_is_wrong_if_the_answer_arrived(
    questions: ClientQuestions, sent_ms: int, connected: bool, summaries: Sequence[str]
) -> None:
    question = asked(questions)
    answered(question, ANSWER, sent_ms, connected=connected)
    found = found_in(questions, question, TIMEOUT)
    assert [wanted in each.summary for each, wanted in zip(found, summaries, strict=True)] == [True] * len(summaries)


def test_a_pause_a_late_delivery_or_a_stop_excuses_a_timeout(questions: ClientQuestions) -> None:
    question = asked(questions)
    answered(question, ANSWER, 100)
    assert found_in(questions, question, TIMEOUT)
    questions.paused_ns = lambda since_ns: 4_000 * MS
    assert found_in(questions, question, TIMEOUT) == []
    questions.paused_ns, questions.late_until_ns = lambda since_ns: 0, lambda host: 4_001 * MS
    assert found_in(questions, question, TIMEOUT) == []
    questions.late_until_ns = lambda host: 0
    questions.note_stopping(1_000 * MS)
    assert found_in(questions, question, TIMEOUT) == []


def test_a_connected_client_must_get_the_question(questions: ClientQuestions) -> None:
    question = asked(questions)
    assert "does not get q" in found_in(questions, question, TIMEOUT)[0].summary
    questions.record_end(CLIENT, 1)  # the broker may not have noticed the end of the old connection
    assert found_in(questions, question, TIMEOUT) == []


def test_a_timeout_comes_neither_early_nor_late(questions: ClientQuestions) -> None:
    early, late = asked(questions, ended_ms=4_999), asked(questions, ended_ms=6_001)
    for each in (early, late):
        answered(each, ANSWER, 5_000)
    assert "early" in found_in(questions, early, TIMEOUT)[0].summary
    assert list(questions.check_time(early, "10.0.0.117")) == []
    assert [found.invariant for found in questions.check_time(late, "10.0.0.117")] == ["LIVE"]


def test_busy_needs_two_other_questions(questions: ClientQuestions) -> None:
    busy = RemotingCommand(ResponseCode.SYSTEM_BUSY, 0)
    others = [ClientQuestion(name, ANSWER, [], None, 0) for name in ("a", "b")]
    questions.add(others[0])
    question = asked(questions, at_ms=1, ended_ms=2)
    assert [found.summary for found in found_in(questions, question, busy)] == ["q is refused as busy"]
    questions.add(others[1])
    assert found_in(questions, question, busy) == []
    questions.give_up(others[1], 0)
    assert found_in(questions, question, busy) == []  # the broker may still wait for the client
    questions.give_up(others[1], -20_000 * MS)
    assert len(found_in(questions, question, busy)) == 1


def test_a_member_is_never_refused(questions: ClientQuestions) -> None:
    question = asked(questions)
    refused = RemotingCommand(ResponseCode.SYSTEM_ERROR, 0, remark="not connected")
    assert "is refused" in found_in(questions, question, refused)[0].summary
    assert list(questions.check_reply(question, refused, [])) == []


def test_offsets_of_members_are_those_that_they_answered(questions: ClientQuestions) -> None:
    question = asked(questions, status=True)
    answered(question, OFFSETS, 1)

    def reply(members: str) -> RemotingCommand:
        return RemotingCommand(0, 0, body=f'{{"consumerTable":{{{members}}},"messageQueueTable":{{}}}}'.encode())

    own = f'"{CLIENT}":{{{{"queueId":0,"topic":"q"}}:7}}'
    assert found_in(questions, question, reply(own)) == []
    assert "did not answer" in found_in(questions, question, reply(own.replace(":7", ":8")))[0].summary
    assert "does not get the answer" in found_in(questions, question, reply(""))[0].summary
    answered(question, ANSWER, 1)
    assert found_in(questions, question, reply("")) == []  # a client that fails is left out


def test_a_client_gets_the_question_as_it_was_asked(questions: ClientQuestions) -> None:
    question = asked(questions)
    assert questions.find(question.request) is question
    assert list(question.check_request(CLIENT, question.request, None)) == []
    assert list(question.check_request("another@1", question.request, None))
    assert list(question.check_request(CLIENT, question.request, 4_096))
