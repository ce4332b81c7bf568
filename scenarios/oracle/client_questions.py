"""Client questions: an operator's questions to clients of a broker, and the answers that the broker passes on.

    answer of a client    the client gave it to this question, and the broker has not changed it (STATUS)
    timeout               after 5 s, and no connected client has answered in time (STATUS)
    client not known      the client was not a member for the whole time (STATUS)
    busy                  enough other questions wait (STATUS)
    any answer            within 5 s and the time of a request (LIVE)

A question about the offsets of several members lacks those that do not answer SUCCESS in time.
Source: RocketMQ AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ...store.broker.client_calls import CALLS_MAX, TIMEOUT_MS
from ...store.broker.requests import RequestCode, ResponseCode
from ...store.formats.remoting.command import RemotingCommand
from .evidence import Violation, record_tried

_NS = 1_000_000
_TIMEOUT_NS = TIMEOUT_MS * _NS
_ENDLESS = 1 << 63
QUESTION_FIELD, ANSWER_FIELD = "question", "answer"
_CALLS_OF_CLIENTS = {RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT}
_OFFSETS_OF_CLIENT = re.compile(r'"([^"{}]+)":\{((?:\{[^{}]*\}:-?\d+,?)*)\}')
"""The id of a client, and its map from queues to offsets. The queues are JSON objects, as fastjson writes them."""


@dataclass(slots=True, eq=False)
class Receipt:
    """A question at one client, and the client's answer."""

    is_connected: Callable[[], bool]
    """Whether the connection over which the question came is still open."""
    answer: RemotingCommand | None = None
    """Set before the client sends the answer."""
    sent_ns: int = _ENDLESS
    """Set after the client has sent the answer."""


@dataclass(slots=True, eq=False)
class ClientQuestion:
    """A question of an operator. Times in virtual ns."""

    name: str
    request: RemotingCommand
    clients: Sequence[str]
    """The clients for which the question is; empty: all members of the group."""
    body_offset: int | None
    """The log offset of the message that the broker adds to the question; None: no message."""
    asked_ns: int
    ended_ns: int = _ENDLESS
    """The time of the answer, or a time by which the broker has dropped a question that the operator gave up."""
    receipts: dict[str, Receipt] = field(default_factory=dict)

    def check_request(self, client: str, request: RemotingCommand, body_offset: int | None) -> Iterator[Violation]:
        """Yield differences between the question and the request that a client has received."""
        record_tried("STATUS")
        code = _CALLS_OF_CLIENTS.get(RequestCode(self.request.code), self.request.code)
        fields = dict(self.request.ext_fields)
        if code != self.request.code:
            fields.pop("clientAddr")
        expected = (code, fields, self.body_offset)
        found = (request.code, dict(request.ext_fields), body_offset)
        if not self.is_for(client) or client in self.receipts or found != expected:
            yield _violation(f"{client} gets another question than an operator asked", expected, found)

    def is_for(self, client: str) -> bool:
        return client in self.clients if self.clients else True


@dataclass(slots=True)
class ClientQuestions:
    """The questions to the clients of one broker."""

    late_until_ns: Callable[[str], int] = lambda host: 0
    """Argument: a host. Returns the end of the last fault of the network or of a disk that delays its requests."""
    paused_ns: Callable[[int], int] = lambda since_ns: 0
    """Returns the sum of all pauses of tasks since a time."""
    late_ms_max: int = 0
    """How long a request or an answer takes without such faults and pauses."""
    _stopping_ns: int = _ENDLESS
    _asked: dict[str, ClientQuestion] = field(default_factory=dict)
    _unsure_until_ns: dict[str, int] = field(default_factory=dict)
    """Client -> the time by which the broker has noticed the last end of its connection."""

    def is_waiting(self, now_ns: int) -> bool:
        """Return whether the broker may wait for an answer."""
        return any(each.ended_ns > now_ns for each in self._asked.values())

    def begin_life(self) -> None:
        self._stopping_ns = _ENDLESS

    def note_stopping(self, now_ns: int) -> None:
        """Record that the broker begins to stop. It receives no more data of clients."""
        self._stopping_ns = now_ns

    def add(self, question: ClientQuestion) -> None:
        self._asked[question.name] = question

    def record_end(self, client: str, noticed_ns: int) -> None:
        """Record that a client ends its connection. Until the broker notices this, it may ask over the connection."""
        self._unsure_until_ns[client] = noticed_ns

    def give_up(self, question: ClientQuestion, now_ns: int) -> None:
        """End a question without an answer. It may have reached the broker late, and wait there."""
        question.ended_ns = now_ns + 2 * _TIMEOUT_NS

    def find(self, request: RemotingCommand) -> ClientQuestion | None:
        """Return the question with the name in a request that a client has received."""
        fields = request.ext_fields
        return self._asked.get(fields.get(QUESTION_FIELD) or fields.get("topic", ""))

    def check_reply(
        self, question: ClientQuestion, reply: RemotingCommand, members: Collection[str]
    ) -> Iterator[Violation]:
        """Yield errors of the broker's answer. The broker must not have restarted since the question.

        members: the clients that were certainly members of the group for the whole time.
        """
        record_tried("STATUS")
        asked_of = [
            client
            for client in members
            if question.is_for(client) and self._unsure_until_ns.get(client, -1) < question.asked_ns
        ]
        if reply.code == ResponseCode.SYSTEM_BUSY:
            yield from self._check_busy(question)
        elif question.request.code in _CALLS_OF_CLIENTS:
            yield from self._check_offsets(question, reply, asked_of)
        elif ANSWER_FIELD in reply.ext_fields:
            yield from _check_answer(question, reply)
        elif reply.code == ResponseCode.CONSUME_MSG_TIMEOUT:
            if asked_of and question.ended_ns < question.asked_ns + _TIMEOUT_NS:
                yield _violation(f"{question.name} times out early", f">= {TIMEOUT_MS} ms", _took_ms(question))
            yield from self._check_no_answer(question, asked_of)
        elif asked_of and self._stopping_ns == _ENDLESS:
            yield _violation(f"{question.name} to a member is refused", "an answer", (reply.code, reply.remark))

    def check_time(self, question: ClientQuestion, host: str) -> Iterator[Violation]:
        """Yield an answer that the operator at a host received too late."""
        record_tried("LIVE")
        if question.ended_ns > self._arrives_ns(question, question.asked_ns, host) + _TIMEOUT_NS:
            expected = f"<= {TIMEOUT_MS + self.late_ms_max} ms"
            summary = f"{question.name} is answered late"
            yield Violation("LIVE", summary, field="answer time", expected=expected, found=_took_ms(question))

    def _check_busy(self, question: ClientQuestion) -> Iterator[Violation]:
        others = [
            each
            for each in self._asked.values()
            if each is not question and each.asked_ns <= question.ended_ns and each.ended_ns >= question.asked_ns
        ]
        if len(others) < CALLS_MAX:
            yield _violation(f"{question.name} is refused as busy", f"{CALLS_MAX} others", len(others))

    def _check_offsets(
        self, question: ClientQuestion, reply: RemotingCommand, members: Sequence[str]
    ) -> Iterator[Violation]:
        """Check the offsets of members, one map for each member that has answered."""
        if reply.code != ResponseCode.SUCCESS:
            if members and self._stopping_ns == _ENDLESS:
                yield _violation(f"{question.name} to members is refused", "their offsets", (reply.code, reply.remark))
            return
        table = reply.body.decode().partition('"consumerTable":')[2].rpartition('"messageQueueTable":')[0]
        found = dict(_OFFSETS_OF_CLIENT.findall(table))
        for client, offsets in found.items():
            receipt = question.receipts.get(client)
            answer = None if receipt is None else receipt.answer
            expected = answer.body.decode() if answer is not None and _is_success(answer) else ""
            if f"{{{offsets}}}" not in expected:
                yield _violation(f"{question.name} gets offsets that {client} did not answer", expected, offsets)
        silent = [client for client in members if client not in found]
        yield from self._check_no_answer(question, silent)

    def _check_no_answer(self, question: ClientQuestion, members: Sequence[str]) -> Iterator[Violation]:
        """Yield members that the broker counts as silent although their answers arrived in time."""
        for client in members:
            receipt = question.receipts.get(client)
            if receipt is None:
                if self._arrives_in_time(question, question.asked_ns, client):
                    yield _violation(f"{client} does not get {question.name}", "the question", "none")
                continue
            answer = receipt.answer
            is_left_out = question.request.code in _CALLS_OF_CLIENTS and not _is_success(answer)
            if is_left_out or not receipt.is_connected():
                continue
            if self._arrives_in_time(question, receipt.sent_ns, client):
                sent = f"an answer {(receipt.sent_ns - question.asked_ns) / _NS:.3f} ms after the question"
                yield _violation(f"{question.name} does not get the answer of {client}", sent, "no answer")

    def _arrives_in_time(self, question: ClientQuestion, sent_ns: int, client: str) -> bool:
        """Return whether data between a client and the broker, sent at a time, arrives before the timeout and a stop.

        The broker waits from the arrival of the question on, so at least until 5 s after the operator has sent it.
        """
        until_ns = min(question.asked_ns + _TIMEOUT_NS, self._stopping_ns)
        return self._arrives_ns(question, sent_ns, client.partition("@")[0]) <= until_ns

    def _arrives_ns(self, question: ClientQuestion, sent_ns: int, host: str) -> int:
        """Return the latest arrival of data between a host and the broker, sent after the question."""
        late_ns = self.late_ms_max * _NS + self.paused_ns(question.asked_ns)
        return max(sent_ns, self.late_until_ns(host)) + late_ns


def _is_success(answer: RemotingCommand | None) -> bool:
    return answer is not None and answer.code == ResponseCode.SUCCESS


def _check_answer(question: ClientQuestion, reply: RemotingCommand) -> Iterator[Violation]:
    answers = [each.answer for each in question.receipts.values() if each.answer is not None]
    expected = [_content(each) for each in answers]
    if _content(reply) not in expected:
        yield _violation(f"{question.name} gets another answer than the client's", expected, _content(reply))


def _content(answer: RemotingCommand) -> tuple[int, str, dict[str, str], bytes]:
    """Not every form of frame tells an empty remark from none."""
    return answer.code, answer.remark or "", dict(answer.ext_fields), answer.body


def _took_ms(question: ClientQuestion) -> str:
    return f"{(question.ended_ns - question.asked_ns) / _NS:.3f} ms"


def _violation(summary: str, expected: object, found: object) -> Violation:
    return Violation("STATUS", summary, field="answer of a client", expected=str(expected), found=str(found))
