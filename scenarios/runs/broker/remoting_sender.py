"""Remoting sender: sends drafts to brokers over a network, which may lose or delay requests.

Each send is a put with its own name. The broker stores properties in the order of a Java map, adds CLUSTER, and removes
WAIT from a message that is not in a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ....sim.choices import Stream
from ....store.broker.requests import ResponseCode
from ....store.formats.host import Host, decode_message_id
from ....store.formats.remoting.command import RemotingCommand
from ...claims.plan import Plan
from ...oracle.invariants import live
from ...oracle.pull_times import HEADERS_BYTES
from ...oracle.put_entry import PROPERTIES_MAX, PutEntry
from ...oracle.reader import in_java_map_order, properties_of
from ...oracle.transactions import TransactionBehaviour
from ...workload.drawing import BATCH_UNITS_MAX, Draft, Drawing, DrawnMessage
from ...workload.producer import Producer
from ...workload.skew import EVEN
from .answers import check_chosen_queue, note_answer
from .broker_user import ANSWER_MS, BrokerUser
from .commands import draw_form_of_send, send_command, sent_properties
from .message_options import put_name
from .transaction_listener import TransactionListener

_CLUSTER = {"CLUSTER": "DefaultCluster"}
_ROLLBACK_CHANCE = 0.3
_WAITS_CHANCE = 0.3
_LOCAL_TRANSACTION_MS = (0, 0, 0, 100, 1_000)
_ANY_QUEUE_CHANCE = 0.2
_NO_WAIT_CHANCE = 0.2
_ONE_WAY_CHANCE = 0.05


def patient_timeout_ms(plan: Plan) -> int:
    """Return the timeout of a send after all faults have ended. All sends may have to pass through small buffers."""
    return plan.broker.send_timeout_ms + _passage_ms_max(plan)


def _passage_ms_max(plan: Plan) -> int:
    """Return how long the longest sends of all producers take to pass through the buffers of one connection."""
    sizes, sends = plan.messages, plan.producers * plan.broker.sends_in_flight
    properties_bytes = PROPERTIES_MAX if sizes.longest_chance else sizes.property_bytes_max
    units = sends * (BATCH_UNITS_MAX if sizes.batch_chance else 1)
    windows = units * (HEADERS_BYTES + sizes.body_bytes_max + properties_bytes) // plan.broker.buffer_bytes
    return windows * 2 * ceil(plan.network.latency_us_max / 1_000)


def draw_behaviour(stream: Stream) -> TransactionBehaviour:
    """Choose at random when a client decides a transaction: after its local transaction, or after a check request."""
    commits = not stream.chance(_ROLLBACK_CHANCE, "is rolled back")
    waits = stream.chance(_WAITS_CHANCE, "waits to be asked")
    unknowns = stream.choice((0, 0, 0, 1, 2), "unknowns")
    own_after_ms = None if waits else stream.choice(_LOCAL_TRANSACTION_MS, "local transaction ms")
    return TransactionBehaviour(commits, own_after_ms, False, unknowns, 0, 0)


@dataclass(slots=True)
class SentState:
    """The state of a producer that survives the death of its machine."""

    turn: int
    """A counter that selects the next queue or broker in rotation."""
    failed: str = ""
    """The broker of the last send if its answer was not SUCCESS, else empty."""


@dataclass(frozen=True, slots=True)
class RemotingSender:
    """Sends the messages of one producer from one machine."""

    user: BrokerUser
    producer: Producer
    drawing: Drawing
    state: SentState
    listener: TransactionListener | None
    answered_us: list[int]

    def draw(self, stream: Stream, name: str) -> Draft:
        return self.drawing.draw(stream, name, self.user.world.clock.now_ms())

    def put(self, draft: Draft) -> bool:
        """Send a draft once, to its queue or to the next queue in rotation; return False if it must be sent again."""
        user, state = self.user, self.state
        broker = user.routes.broker_to_send_to(draft.topic, state.turn, state.failed)
        if broker is None:
            return False
        account = user.run.accounts[broker.broker]
        account.hits["producer failover"] += state.failed not in ("", broker.broker)
        state.failed = broker.broker
        queue_id = draft.queue_id
        if self.drawing.skew == EVEN:
            queue_id, state.turn = state.turn % user.plan.queues_per_topic, state.turn + 1
        draft.sends += 1
        began_ns = user.now_ns
        hosts = Host.of_address(f"{user.machine.host}:0"), Host.of_address(broker.address)
        names_wait = not draft.wait or not self._forms(draft).chance(_NO_WAIT_CHANCE, "no WAIT")
        puts = [
            self._make_put(draft, each, queue_id, began_ns, hosts, names_wait=names_wait) for each in draft.messages
        ]
        asked_queue_id = self._draw_queue_id(draft, puts, queue_id)
        ledger, refusal = account.ledger, draft.refusal(puts, user.plan)
        for put in puts:
            ledger.record_request(put)
        if draft.behaviour is not None:
            ledger.transactions.add_transaction(puts[0].name, draft.behaviour).must_be_decided = self.producer.insists
        asked_in, insisted = ledger.life, self.producer.insists
        timeout_ms = patient_timeout_ms(user.plan) if insisted else user.plan.broker.send_timeout_ms
        try:
            user.machine.die_by_chance("in a send")
            command = self._command(draft, puts, asked_queue_id, names_wait=names_wait)
            if not insisted and draft.behaviour is None and self._forms(draft).chance(_ONE_WAY_CHANCE, "one way"):
                user.routes.client(broker).invoke_one_way(command)  # the producer never learns whether it is stored
                return True
            response = user.routes.client(broker).invoke(command, timeout_ms)
        except OSError as error:
            if insisted and self._has_patience and user.run.store_at(broker) is not None:
                user.run.report(live.violation_of_time_out(timeout_ms, error))
            return False
        finally:
            for put in puts:
                put.over_in = ledger.life
        now_ns = user.now_ns
        if asked_queue_id < 0 and "queueId" in response.ext_fields:
            chosen, known = int(response.ext_fields["queueId"]), account.tables.topics.certain(draft.topic, began_ns)
            writes = user.plan.queues_per_topic if known is None or known[0] is None else int(str(known[0][1]))
            user.run.report(check_chosen_queue(puts[0], chosen, writes))
            for put in puts:
                put.queue_id = chosen if put.queue_id < 0 else put.queue_id
        user.run.report(note_answer(account, puts, response, refusal, asked_in=asked_in, now_ns=now_ns))
        if refusal is not None and response.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION):
            account.hits["message refused for good"] += 1
            return True
        if response.code != ResponseCode.SUCCESS:
            # the buffers of the connection to the slave may be too small for the time that the master waits
            is_slow = _passage_ms_max(user.plan) > user.plan.cluster.slave_timeout_ms
            return insisted and is_slow and response.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        state.failed = ""
        self.answered_us.append((now_ns - began_ns) // 1000)
        if draft.behaviour is not None and draft.behaviour.own_after_ms is not None:
            assert self.listener is not None, "there are half messages"
            _, log_offset = decode_message_id(response.ext_fields["msgId"])
            if draft.behaviour.own_after_ms:
                user.world.tasks.sleep(draft.behaviour.own_after_ms)  # Java's producer sends no message meanwhile
            self.listener.decide(puts[0].name, int(response.ext_fields["queueOffset"]), log_offset, asked_in=None)
        return True

    @property
    def _has_patience(self) -> bool:
        """Whether the timeout is so long that a broker without faults must answer before. A slave may be late."""
        return self.user.plan.broker.send_timeout_ms >= ANSWER_MS and not self.user.plan.cluster.slaves

    def _forms(self, draft: Draft) -> Stream:
        """Return the choices among the forms that RocketMQ's clients give a send."""
        first = put_name(draft.messages[0].name, draft.sends)
        return self.user.run.streams(f"{self.user.name}/forms").with_subject(first)

    def _command(self, draft: Draft, puts: Sequence[PutEntry], queue_id: int, *, names_wait: bool) -> RemotingCommand:
        command = send_command(draft, puts, self.user.plan.queues_per_topic, queue_id, names_wait=names_wait)
        return draw_form_of_send(self._forms(draft), command)

    def _draw_queue_id(self, draft: Draft, puts: Sequence[PutEntry], queue_id: int) -> int:
        """Return the queue that a request names. -1 lets the broker choose, and leaves the queue of the puts open."""
        has_one = self.user.plan.queues_per_topic == 1
        is_plain = draft.behaviour is None and not any(put.waiting_place or put.light_names for put in puts)
        if not (has_one or is_plain) or not self._forms(draft).chance(_ANY_QUEUE_CHANCE, "any queue"):
            return queue_id
        for put in puts:
            put.queue_id = queue_id if has_one else -1
        return -1

    def _make_put(
        self,
        draft: Draft,
        message: DrawnMessage,
        queue_id: int,
        now_ns: int,
        hosts: tuple[Host, Host],
        *,
        names_wait: bool,
    ) -> PutEntry:
        name = put_name(message.name, draft.sends)
        if draft.in_batch:
            wait = {"WAIT": "true" if draft.wait else "false"} if names_wait else {}
            shared = in_java_map_order(wait | _CLUSTER).decode()
            properties = message.properties(name, shared).encode()
        else:
            named = properties_of(sent_properties(draft, name).encode())
            properties = in_java_map_order(named | _CLUSTER)
        content = message.content._replace(born_host=hosts[0], store_host=hosts[1])
        put = draft.put(message, name, properties, now_ns, queue_id, content)
        put.knows_port, put.over_in = False, None
        return put
