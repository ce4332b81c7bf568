"""Client answers: the answers of one client to the questions that operators send through a broker.

    GET_CONSUMER_RUNNING_INFO  CONSUME_MESSAGE_DIRECTLY  GET_CONSUMER_STATUS_FROM_CLIENT

The client answers at once, late or never, or ends its connection. Each answer has other content.
Source: RocketMQ ClientRemotingProcessor.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ....store.broker.remoting_client import ClientConnection
from ....store.broker.requests import RequestCode, ResponseCode, response_to
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue, encode_json_body
from ...oracle.client_questions import ANSWER_FIELD, ClientQuestion, Receipt
from ...oracle.evidence import Violation
from .account import BrokerAccount
from .broker_user import BrokerUser
from .commands import pulled_records

QUESTIONS = (
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
)
_AT_ONCE, _NEVER, _ENDS = "at once", "never", "ends the connection"
_REACTIONS = (*(_AT_ONCE,) * 60, 1, 10, 100, 2_000, 4_999, 6_000, _NEVER, _ENDS)
"""A number: the client answers after so many ms."""
_FAILURE_CHANCE = 0.2
_UNKNOWN = "a question that no operator asked"


class ClientAnswers:
    """Answers the questions to one user, on all of its machines."""

    def __init__(self, user: BrokerUser) -> None:
        self._user = user
        self._stream = user.run.streams(f"{user.name}/answers")
        self._answered = 0

    def receive(self, request: RemotingCommand, connection: ClientConnection) -> None:
        """Take a question. The calling task must not wait."""
        accounts = self._user.run.accounts.values()
        found = ((each, each.questions.find(request)) for each in accounts)
        account, question = next(((each, asked) for each, asked in found if asked is not None), (None, None))
        if account is None or question is None:
            summary = f"{self._user.client_id} gets {_UNKNOWN}"
            self._report(iter([Violation("STATUS", summary, field="question", expected="none", found=str(request))]))
            return
        body_offset = next((record.physical_offset for record, _ in pulled_records(request.body)), None)
        self._report(question.check_request(self._user.client_id, request, body_offset))
        receipt = question.receipts[self._user.client_id] = Receipt(lambda: not connection.is_broken)
        answer = partial(self._answer, account, question, receipt, request, connection)
        self._user.world.tasks.spawn(f"answer {question.name}", answer)

    def _report(self, found: Iterator[Violation]) -> None:
        self._user.run.report(found)

    def _answer(
        self,
        account: BrokerAccount,
        question: ClientQuestion,
        receipt: Receipt,
        request: RemotingCommand,
        connection: ClientConnection,
    ) -> None:
        user = self._user
        reaction = _AT_ONCE if user.insists else self._stream.choice(_REACTIONS, "reaction")
        if reaction == _ENDS:
            account.members.record_failed_request(user.client_id, user.now_ns)
            account.questions.record_end(user.client_id, user.now_ns + account.members.late_ms_max * 1_000_000)
            connection.close()
        if reaction in (_NEVER, _ENDS):
            return
        if isinstance(reaction, int):
            user.world.tasks.sleep(reaction)
        receipt.answer = self._make_answer(question, request)
        with suppress(OSError):
            connection.respond(request, receipt.answer)
            receipt.sent_ns = user.now_ns

    def _make_answer(self, question: ClientQuestion, request: RemotingCommand) -> RemotingCommand:
        self._answered += 1
        number = self._answered
        is_failure = self._stream.chance(_FAILURE_CHANCE, "fails")
        code = ResponseCode.SYSTEM_ERROR if is_failure else ResponseCode.SUCCESS
        remark = f"failure {number}" if is_failure else None
        body: dict[str, object] = {"number": number}
        if request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            body = {"messageQueueTable": {MessageQueue(question.name, self._user.name, 0): number}}
        return response_to(request, code, remark, {ANSWER_FIELD: str(number)}, encode_json_body(body))
