"""Tailing consumer: follows one queue from its end, in a group of its own.

If light queues are enabled, its group is the group of a light queue, and each pull commits its offset. Otherwise the
group has no offsets. Its pulls wait at the same queue as other pulls, with a subscription of their own. Each must be
answered when a message that matches arrives.
"""

from collections.abc import Sequence

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.requests import ResponseCode
from ...claims.plan import Plan
from ...oracle.light_places import LIGHT_PREFIX
from .answers import PULLED, TimedPull, bounds_of_pull
from .broker_user import ANSWER_MS, BrokerUser, UserContext
from .commands import consumer_heartbeat, max_offset_command, pull_command, pulled_records
from .consumer import RETRY_MS, BrokerQueue
from .message_options import draw_subscription
from .routes import BrokerAddress

TAILING_NET = 50
"""The last byte of the address of the first tailing consumer."""
_SUSPEND_MS = 5_000
"""How long the broker holds a pull. The time is long, because most pulls of a run find no message."""

_AHEAD = (0, 0, 0, 1, 7)
"""A consumer with progress of its own may be ahead of a broker that has lost the end of its log."""
_NOT_HELD_MS = 1_000
_CHANGES_CHANCE = 0.1
"""How often a client with a registered filter changes its subscription after a pull."""
_RETURNS_CHANCE = 0.7
_ADOPTS_CHANCE = 0.5
_LAGS_MS = (0, 20, 200, 2_000)
"""How long a client does not pull before a change, so that the next pull finds messages from before the change."""
_HELD_NS_MIN = 100_000_000


def tailing_group(plan: Plan, number: int) -> str:
    return f"{LIGHT_PREFIX if plan.light_queues.chance else ''}tailing-{number}"


class TailingConsumer(BrokerUser):
    """Pulls one queue. On a new machine, or if the broker lacks the offset, it restarts at the queue's end."""

    def __init__(self, run: UserContext, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, tailing_group(run.plan, number), TAILING_NET + number)
        self._queue = self.stream.choice(queues, "queue")
        self._account = run.accounts[self._queue.broker]
        self._wanted = draw_subscription(self.stream, run.plan)
        self._version = 0
        self.machine.switch_on()

    def begin(self) -> None:
        for _ in range(self.plan.broker.pulls_in_flight):
            self.world.tasks.spawn(f"tail {self._queue}", self._pull_repeatedly)

    def _change_registered_filter(self, asked: BrokerAddress) -> None:
        """Send heartbeats of a client that changes its subscription, often back to that of its pulls.

        Otherwise the next pulls have the new subscription, or another than the registered one.
        """
        changes = [draw_subscription(self.stream, self.plan)]
        if self.stream.chance(_RETURNS_CHANCE, "returns to its own"):
            changes.append(self._wanted)
        adopts = self.stream.chance(_ADOPTS_CHANCE, "pulls with the new one")
        for wanted in changes:
            self.rest(self.stream.choice(_LAGS_MS, "ms before a change"))
            self._version += 1
            heartbeat = consumer_heartbeat(self.client_id, self.run.topics, wanted, self.name, version=self._version)
            self.send(asked, heartbeat)
        if adopts:
            self._wanted = changes[-1]

    def _pull_repeatedly(self) -> None:
        position: int | None = None
        while True:
            asked = self.routes.broker_to_pull_from(self._queue.broker, self._queue.topic, MASTER_ID)
            following = None
            if asked is not None and not asked.is_slave:
                following = self._find_end(asked) if position is None else self._pull_once(asked, position)
                changes = self.plan.broker.registers_filters
                if changes and (position is None or self.stream.chance(_CHANGES_CHANCE, "changes its subscription")):
                    self._change_registered_filter(asked)
            if following is None:
                self.world.tasks.sleep(RETRY_MS)
            position = following

    def _find_end(self, asked: BrokerAddress) -> int | None:
        response, _ = self.send(asked, max_offset_command(*self._queue.queue))
        if response is None or response.code != ResponseCode.SUCCESS:
            return None
        ahead = 0 if self.plan.light_queues.chance else self.stream.choice(_AHEAD, "offsets after the end")
        return int(response.ext_fields["offset"]) + ahead

    def _pull_once(self, asked: BrokerAddress, position: int) -> int | None:
        """Return the next offset, None without an answer or if the broker lacks the offset."""
        account, queue, asked_in = self._account, self._queue.queue, self._account.ledger.life
        before, began_ns = account.pulls.known_bounds(queue), self.now_ns
        wanted, most = self._wanted, self.plan.broker.pull_messages_max
        commit = position if self.plan.light_queues.chance else None
        command = pull_command(
            *queue, position, wanted, most=most, suspend_ms=_SUSPEND_MS, commit=commit, group=self.name
        )
        response, sent_ns = self.send(asked, command, _SUSPEND_MS + ANSWER_MS)
        if response is None:
            return None
        readings = list(pulled_records(response.body)) if response.code == ResponseCode.SUCCESS else []
        if asked_in == account.ledger.life:
            pull = TimedPull(queue, position, self.machine.host, _SUSPEND_MS, before, began_ns, sent_ns)
            given = [record.queue_offset for record, _ in readings]
            self.run.report(pull.check_answer(account, response, self.now_ns, wanted, given, most))
        if response.code in PULLED:
            account.ledger.groups.add(self.name)
        if response.code == ResponseCode.SUCCESS:
            answered = [(None, reading) for reading in readings]
            given_to = self.received_messages(wanted)[self._queue.broker]
            given_to.judge_answer(queue, position, answered, bounds_of_pull(response), asked_in)
        if response.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
            return None
        self.machine.die_by_chance("between two pulls")
        if response.code == ResponseCode.PULL_NOT_FOUND and self.now_ns < sent_ns + _HELD_NS_MIN:
            self.world.tasks.sleep(_NOT_HELD_MS)  # the broker holds no more pulls
        return int(response.ext_fields["nextBeginOffset"])
