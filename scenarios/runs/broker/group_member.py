"""Group member: one of several consumers of a group, which share its queues by rebalancing.

    heartbeat       registers the member, and announces it to the other members
    members         GET_CONSUMER_LIST_BY_GROUP, regularly and after each NOTIFY_CONSUMER_IDS_CHANGED
    rebalancing     each member takes its part of the sorted queues, by its place among the sorted members
    leaving         UNREGISTER_CLIENT, the end of the machine, or heartbeats that stop while the connection stays open,
                    perhaps with further heartbeats for a second group only

Source: RocketMQ MQClientInstance, RebalanceImpl, AllocateMessageQueueAveragely.
"""

from collections.abc import Sequence

import msgspec

from ....store.broker.remoting_client import ClientConnection, RemotingClient
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.group_members import MemberNotice
from .broker_user import BrokerUser, UserContext
from .client_answers import QUESTIONS, ClientAnswers
from .commands import consumer_heartbeat, groups_heartbeat, member_list_command, unregister_command
from .consumer import BrokerQueue
from .message_options import EVERYTHING

GROUP, SECOND_GROUP = "members", "members-of-two"
MEMBERS_NET = 70
"""The last byte of the address of the first member."""
HEARTBEAT_MS = 20_000
"""RocketMQ's clients use 30 s."""
REBALANCE_MS = 20_000
_AWAY_MS = (1_000, 30_000, 140_000)
"""How long a member that left stays away. The longest time exceeds the expiry of a silent member."""
_SECOND_CHANCE = 0.5
"""Some members belong to two groups, so that they can fall silent in one."""

SETTLE_MS = 120_000 + 10_000 + max(_AWAY_MS) + 60_000 + 2 * REBALANCE_MS
"""The time limit until all queues have an owner again: the broker drops a silent member, another member returns, the
locks of the dropped member expire, and rebalancing takes place.
"""


def allocate_averagely(queues: Sequence[BrokerQueue], members: Sequence[str], own: str) -> list[BrokerQueue]:
    """Return a member's part of the queues. Source: RocketMQ AllocateMessageQueueAveragely."""
    if own not in members:
        return []
    index, remainder = sorted(members).index(own), len(queues) % len(members)
    size = len(queues) // len(members) + (index < remainder)
    begin = index * size + (0 if index < remainder else remainder)
    return sorted(queues)[begin : begin + size]


class GroupMember(BrokerUser):
    """Takes its part of the queues of every broker. Invariant: `owned` has only queues of the last rebalancing."""

    def __init__(self, run: UserContext, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, f"member-{number}", MEMBERS_NET + number)
        self.machine.on_death = self._note_death
        self.queues = queues
        self.owned: set[BrokerQueue] = set()
        self._answers = ClientAnswers(self)

    def _note_death(self) -> None:
        for account in self.run.accounts.values():
            account.members.record_death(self.client_id, self.now_ns, silently=self.machine.died_silently)

    def begin(self) -> None:
        self.owned = set()
        self._notices: list[MemberNotice] = []
        self._is_away = self._is_silent = False
        is_in_two = self.plan.broker.leave_chance > 0.0 and self.stream.chance(_SECOND_CHANCE, "joins a second group")
        self._further_groups = [SECOND_GROUP] if is_in_two else []
        self._change = self.world.tasks.signal(f"{self.name} rebalances")
        self.world.tasks.spawn("rebalance", self._rebalance_repeatedly)
        self.world.tasks.spawn("heartbeat", self._send_heartbeats)

    def receive_request(self, request: RemotingCommand, connection: ClientConnection) -> None:
        if request.code in QUESTIONS:
            self._answers.receive(request, connection)
            return
        self._notices.append(MemberNotice(self.now_ns, request.code, request.body))
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._change.notify()

    def rebalanced(self, broker: str) -> None:
        """Take the queues of the last rebalancing, and give up others."""

    def _send_heartbeats(self) -> None:
        while True:
            for broker in self.run.accounts:
                self._send_heartbeat(broker)
            self._change.notify()
            self.world.tasks.sleep(HEARTBEAT_MS)
            self._leave_by_chance()

    def _send_heartbeat(self, broker: str) -> None:
        old = self._connect_again_by_chance(broker)
        self._register(broker)
        if old is not None:
            old.close()

    def _connect_again_by_chance(self, broker: str) -> RemotingClient | None:
        """Return the old connection, which outlives the first heartbeat over the new one."""
        if self.insists or not self.stream.chance(self.plan.broker.reconnect_chance, "connects again"):
            return None
        address = self.routes.broker_for_offsets(broker, self.run.topics[0])
        return None if address is None or address.is_slave else self.routes.replace_client(address)

    def _register(self, broker: str) -> None:
        members, client_id = self.run.accounts[broker].members, self.client_id
        is_new = members.record_heartbeat_request(client_id, self.now_ns)
        try:
            heartbeat = consumer_heartbeat(client_id, self.run.topics, EVERYTHING, GROUP, others=self._further_groups)
            reply = self.ask(broker, heartbeat)
            if reply is not None and reply.is_success and reply.is_of_this_life:
                members.record_heartbeat_answer(client_id, reply.asked_ns, reply.answered_ns, is_new=is_new)
        finally:
            members.record_no_answer(client_id, self.now_ns)

    def _leave(self, broker: str) -> None:
        members, client_id = self.run.accounts[broker].members, self.client_id
        was_member = members.record_leave_request(client_id, self.now_ns)
        reply = self.ask(broker, unregister_command(client_id, GROUP))
        if was_member and reply is not None and reply.is_success and reply.is_of_this_life:
            members.record_leave_answer(client_id, reply.asked_ns, reply.answered_ns)

    def _leave_by_chance(self) -> None:
        """Leave the group with the plan's chance, and return after some time."""
        if self.insists or not self.stream.chance(self.plan.broker.leave_chance, "leaves"):
            return
        self._is_away = True
        self.owned = set()
        if self.stream.chance(0.5, "unregisters"):
            for broker in self.run.accounts:
                self.rebalanced(broker)
                self._leave(broker)
        else:
            self._is_silent = True
        self._stay_away(self.stream.choice(_AWAY_MS, "ms away"))
        self._is_away = self._is_silent = False

    def _stay_away(self, away_ms: int) -> None:
        if self._is_silent and self._further_groups:
            for _ in range(away_ms // HEARTBEAT_MS):
                for broker in self.run.accounts:
                    self.ask(broker, groups_heartbeat(self.client_id, self._further_groups))
                self.world.tasks.sleep(HEARTBEAT_MS)
            away_ms %= HEARTBEAT_MS
        self.world.tasks.sleep(away_ms)

    def _rebalance_repeatedly(self) -> None:
        while True:
            self._change.wait(REBALANCE_MS)
            for account in self.run.accounts.values():
                self.run.report(account.members.check_notified(self.client_id, self._notices, self.now_ns))
            if not self._is_away:
                for broker in self.run.accounts:
                    self._rebalance(broker)

    def _rebalance(self, broker: str) -> None:
        reply = self.ask(broker, member_list_command(GROUP))
        if reply is None or reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
            return
        members: list[str] = []
        if reply.is_success:  # otherwise no client consumes for the group
            members = msgspec.json.decode(reply.response.body)["consumerIdList"]
        if reply.is_of_this_life:
            known = self.run.accounts[broker].members
            self.run.report(known.check_list(members, reply.asked_ns, reply.answered_ns))
        queues = [queue for queue in self.queues if queue.broker == broker]
        part = allocate_averagely(queues, members, self.client_id)
        self.owned = {queue for queue in self.owned if queue.broker != broker} | set(part)
        self.rebalanced(broker)
