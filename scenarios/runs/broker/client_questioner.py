"""Client questioner: an operator that asks members of a group through the broker, several at a time.

    GET_CONSUMER_RUNNING_INFO  CONSUME_MESSAGE_DIRECTLY  INVOKE_BROKER_TO_GET_CONSUMER_STATUS

Source: RocketMQ MQClientAPIImpl.getConsumerRunningInfo, consumeMessageDirectly, invokeBrokerToGetConsumerStatus.
"""

from ....store.broker.client_calls import TIMEOUT_MS
from ....store.broker.requests import RequestCode
from ....store.formats.host import Host, encode_message_id
from ...oracle.client_questions import QUESTION_FIELD, ClientQuestion
from ...oracle.put_entry import ProducerKnowledge
from .broker_user import ANSWER_MS, BrokerUser, UserContext
from .commands import make_request
from .group_member import GROUP

QUESTIONER_NET = 117
"""The last byte of the questioner's address."""
_PAUSES_MS = (1, 1, 100)
_RETRY_MS = 500
_WAIT_MS = 2 * TIMEOUT_MS + ANSWER_MS
"""Longer than a correct broker needs, because the oracle checks only answers that arrive."""
_FORMER_CHANCE = 0.1
"""The chance that a question may be for a client that has left."""
_KINDS = (
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
)


class ClientQuestioner(BrokerUser):
    """Sends as many questions at a time as a broker works on for one host."""

    def __init__(self, run: UserContext) -> None:
        super().__init__(run, "questioner", QUESTIONER_NET)
        self._count = 0
        self.machine.switch_on()

    def begin(self) -> None:
        for number in range(self.plan.broker.tasks_of_host_max):
            self.world.tasks.spawn(f"ask {number}", self._ask_repeatedly)

    def _ask_repeatedly(self) -> None:
        while not self.insists:
            self.rest(self.stream.choice(_PAUSES_MS, "pause"))
            broker = self.stream.choice(sorted(self.run.accounts), "broker")
            question = self._draw_question(broker)
            if question is None or not self._ask(broker, question):
                self.rest(_RETRY_MS)

    def _draw_question(self, broker: str) -> ClientQuestion | None:
        stream, account = self.stream, self.run.accounts[broker]
        clients = account.members.certain_members(self.now_ns, self.now_ns)
        if not clients or stream.chance(_FORMER_CHANCE, "any client"):
            clients = account.members.clients
        if not clients:
            return None
        self._count += 1
        name, client = f"question-{self._count}", stream.choice(clients, "client")
        kind, offset, asked = stream.choice(_KINDS, "question"), None, [client]
        if kind == RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS:
            asked = [] if stream.chance(0.5, "all members") else asked
            request = make_request(kind, topic=name, group=GROUP, clientAddr="".join(asked))
        elif kind == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            offset, address = self._draw_offset(broker), self.routes.broker_for_offsets(broker, self.run.topics[0])
            if offset is None or address is None:
                return None
            known = {"consumerGroup": GROUP, "clientId": client, "brokerName": broker, QUESTION_FIELD: name}
            request = make_request(kind, msgId=encode_message_id(Host.of_address(address.address), offset), **known)
        else:
            known = {"consumerGroup": GROUP, "clientId": client, "jstackEnable": "false", QUESTION_FIELD: name}
            request = make_request(kind, **known)
        return ClientQuestion(name, request, asked, offset, self.now_ns)

    def _draw_offset(self, broker: str) -> int | None:
        """Return the log offset of a message that the broker has dispatched, and so can look up."""
        ledger, store = self.run.accounts[broker].ledger, self.run.master_store(broker)
        end = 0 if store is None else store.dispatch.reput_from.get()
        offsets = [
            put.physical_offset
            for put in (*ledger.promised.values(), *ledger.puts_of_this_life())
            if put.physical_offset is not None
            and put.physical_offset + put.record_bytes <= end
            and put.knowledge is ProducerKnowledge.ACKNOWLEDGED
        ]
        return self.stream.choice(offsets, "message") if offsets else None

    def _ask(self, broker: str, question: ClientQuestion) -> bool:
        """Return whether the question has an answer."""
        account = self.run.accounts[broker]
        question.asked_ns = self.now_ns
        account.questions.add(question)
        reply = self.ask(broker, question.request, _WAIT_MS)
        if reply is None or not reply.is_of_this_life:
            account.questions.give_up(question, self.now_ns)
            return False
        question.ended_ns = reply.answered_ns
        account.hits["client asked"] += 1
        members = account.members.certain_members(question.asked_ns, question.ended_ns)
        self.run.report(account.questions.check_reply(question, reply.response, members))
        self.run.report(account.questions.check_time(question, self.machine.host))
        return True
