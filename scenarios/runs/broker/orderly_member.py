"""Orderly member: consumes a queue only while it holds the queue's lock at the broker.

The member locks the queues that rebalancing gives it, and renews the locks. It unlocks a queue that it gives up. By
chance it also asks for queues of other members, as a client with an old list of members does. A lock counts as lost
30 s after the last answer, half of its time at the broker.
Source: RocketMQ RebalanceImpl.lockAll, ProcessQueue.isLockExpired, ConsumeMessageOrderlyService.
"""

from collections.abc import Sequence
from functools import partial

from ....store.broker.remoting_client import ClientConnection
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import decode_queue_offsets
from ...oracle.invariants import delivery
from ...oracle.reader import ReadRecord
from .account import BrokerAccount
from .answers import PULLED, TimedPull, bounds_of_pull
from .broker_user import Reply, UserContext
from .commands import lock_command, query_offset_command, update_offset_command
from .consumer import BrokerQueue
from .group_member import GROUP, GroupMember

LOCK_MS = 20_000
"""RocketMQ's rebalanceLockInterval."""
_RETRY_MS = 2_000
_VALID_NS = 30_000_000_000
"""RocketMQ's rebalanceLockMaxLiveTime of a client."""
_GREEDY_CHANCE = 0.3
_WORK_MS = (0, 1, 100)
_IDLE_MS = 500
_UNLOCKED_MS = 2_000
_SUSPEND_MS, _OPERATED_SUSPEND_MS = 15_000, 3_000
"""How long a broker holds a pull. While an operator closes topics for a short time, holds must end in that time."""


class OrderlyMember(GroupMember):
    """Processes each queue in order, at most one answer of a pull at a time."""

    def __init__(self, run: UserContext, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, number, queues)
        self._given = self.received_messages()
        self._suspend_ms = _OPERATED_SUSPEND_MS if run.plan.broker.operators else _SUSPEND_MS
        self.machine.switch_on()

    def begin(self) -> None:
        super().begin()
        self._locked: dict[BrokerQueue, tuple[int, int]] = {}
        """Queue -> the broker's start and the time of the last answer that granted its lock."""
        self._resets: dict[BrokerQueue, int] = {}
        """Queue -> the offset to which an operator has moved the group."""
        self._asked: dict[BrokerQueue, None] = {}
        """Queues with a request to lock since the last unlock. RocketMQ's clients unlock these, too."""
        self._relock = self.world.tasks.signal(f"{self.name} locks")
        self.world.tasks.spawn("lock", self._keep_locks)
        for queue in self.queues:
            self.world.tasks.spawn(f"consume {queue}", partial(self._consume_queue, queue))

    def rebalanced(self, broker: str) -> None:
        self._relock.notify()

    def receive_request(self, request: RemotingCommand, connection: ClientConnection) -> None:
        super().receive_request(request, connection)
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            for place, offset in decode_queue_offsets(request.body, "offsetTable").items():
                self._resets[BrokerQueue(place.broker_name, place.topic, place.queue_id)] = offset

    # -- locks -------------------------------------------------------------------------------------

    def _keep_locks(self) -> None:
        while True:
            if self._is_silent:  # its locks expire at the broker
                self._relock.wait(_RETRY_MS)
                continue
            for broker in self.run.accounts:
                self._unlock([queue for queue in self._asked if queue.broker == broker and queue not in self.owned])
                self._lock(broker)
            lacks = any(queue not in self._locked for queue in self.owned)
            self._relock.wait(_RETRY_MS if lacks else LOCK_MS)

    def _lock(self, broker: str) -> None:
        is_greedy = not self.insists and self.stream.chance(_GREEDY_CHANCE, "asks for all queues")
        wanted = [each for each in self.queues if each.broker == broker and (is_greedy or each in self.owned)]
        if not wanted:
            return
        account = self.run.accounts[broker]
        asked_in = account.ledger.life
        self._asked |= dict.fromkeys(wanted)
        granted = self.ask_for_locks(broker, GROUP, account.locks, [each.queue for each in wanted])
        if granted is None:
            return
        for each in wanted:
            if each.queue in granted:
                self._locked[each] = asked_in, self.now_ns
            else:
                self._locked.pop(each, None)

    def _unlock(self, queues: Sequence[BrokerQueue]) -> None:
        """Unlock queues of one broker. The member consumes none of them from now on."""
        if not queues:
            return
        broker, names = queues[0].broker, [each.queue for each in queues]
        for each in queues:
            del self._asked[each]
            self._locked.pop(each, None)
        locks = self.run.accounts[broker].locks
        locks.record_unlock_request(self.client_id, names)
        reply = self.ask(broker, lock_command(RequestCode.UNLOCK_BATCH_MQ, GROUP, self.client_id, broker, names))
        if reply is not None and reply.is_success and reply.is_of_this_life:
            locks.record_unlock_answer(self.client_id, names, reply.answered_ns)

    def _holds_lock(self, queue: BrokerQueue) -> bool:
        """Return whether the lock is valid for the client. The simulated client notices a restart of the broker."""
        asked_in, locked_ns = self._locked.get(queue, (-1, 0))
        return asked_in == self.run.accounts[queue.broker].ledger.life and self.now_ns <= locked_ns + _VALID_NS

    # -- messages ----------------------------------------------------------------------------------

    def _consume_queue(self, queue: BrokerQueue) -> None:
        position: int | None = None
        ledger, found_in = self.run.accounts[queue.broker].ledger, -1
        while True:
            if ledger.life != found_in:  # the lock may be a new one of a broker that has restarted meanwhile
                position, found_in = None, ledger.life
            if not self._holds_lock(queue):
                position = None
                self.world.tasks.sleep(_UNLOCKED_MS)
                continue
            if position is not None and queue in self._resets:
                position = self._commit(queue, min(position, self._resets.pop(queue)))
            found = self._find_position(queue) if position is None else self._pull_once(queue, position)
            if found is None or found == position:
                self.world.tasks.sleep(_IDLE_MS)
            position = found

    def _find_position(self, queue: BrokerQueue) -> int | None:
        account = self.run.accounts[queue.broker]
        asked_in, group = account.ledger.commits.life, (GROUP, *queue.queue)
        reply = self.ask(queue.broker, query_offset_command(*queue.queue, GROUP))
        if reply is None:
            return None
        if not reply.is_success and reply.response.code != ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = account.handled_to[group] = reply.field("offset") if reply.is_success else 0
        self.run.report(delivery.check_group_offset(account.ledger.commits, group, offset, asked_in=asked_in))
        return offset

    def _pull_once(self, queue: BrokerQueue, position: int) -> int | None:
        """Pull, process and commit. Return the next offset, None if the committed offset must be queried."""
        account = self.run.accounts[queue.broker]
        asked_in = account.ledger.life
        pulled = self.pull(queue.broker, queue.queue, position, self._suspend_ms, GROUP)
        if pulled is None:
            return None
        pull, reply, readings = pulled
        if reply.is_of_this_life:
            refused = reply.response.code == ResponseCode.NO_PERMISSION
            done, since_ns = reply.response.code in PULLED, _permitted_since_ns(pull, reply, readings, account)
            self.run.report(account.tables.check_pull(queue.topic, is_refused=refused, is_done=done, asked_ns=since_ns))
        if reply.response.code == ResponseCode.PULL_NOT_FOUND:
            # The answer to the last commit may have come too late. RocketMQ's client commits every few seconds.
            is_committed = account.handled_to.get((GROUP, *queue.queue), 0) >= position
            return position if is_committed else self._commit(queue, position)
        if reply.response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return reply.field("nextBeginOffset")
        if not reply.is_success or not self._holds_lock(queue):
            return None
        bounds, answered = bounds_of_pull(reply.response), [(None, reading) for reading in readings]
        self._given[queue.broker].judge_answer(queue.queue, position, answered, bounds, asked_in)
        self.machine.die_by_chance("with messages of a locked queue")
        self.world.tasks.sleep(self.stream.choice(_WORK_MS, "ms of work"))
        return self._commit(queue, bounds.next_begin_offset) if self._holds_lock(queue) else None

    def _commit(self, queue: BrokerQueue, offset: int) -> int:
        account, group = self.run.accounts[queue.broker], (GROUP, *queue.queue)
        with account.ledger.commits.committing(group, offset, self.world.clock.monotonic_ns) as commit:
            reply = self.ask(queue.broker, update_offset_command(*queue.queue, offset, GROUP))
            commit.is_answered = reply is not None and reply.is_success
        if commit.is_answered:
            account.handled_to[group] = offset
        return offset

    def unfinished_text(self) -> str:
        """Return the queues that the group has not processed to their ends since the broker's last start."""
        for queue in self.queues:
            account, store = self.run.accounts[queue.broker], self.run.master_store(queue.broker)
            end = 0 if store is None else store.get_max_offset_in_queue(*queue.queue)
            done = account.handled_to.get((GROUP, *queue.queue), 0)
            if done < end:
                return f"{queue} of {GROUP} {done} of {end}"
        return ""


def _permitted_since_ns(pull: TimedPull, reply: Reply, readings: Sequence[ReadRecord], account: BrokerAccount) -> int:
    """Return a time before the broker's last look at the permission: it looks again when it reads a message."""
    puts = [account.ledger.put_seen_in(record) for record, _ in readings]
    since_ns = pull.last_look_ns(account, reply.response, reply.answered_ns)
    return max([since_ns, *(put.asked_ns for put in puts if put is not None)])
