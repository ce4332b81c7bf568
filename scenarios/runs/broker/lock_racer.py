"""Lock racer: lets locks of queues expire, and asks for them again while the broker removes expired locks.

Every 10 s a broker looks for expired locks and removes them. A client may renew or take over a lock meanwhile, and must
then have it for its whole time. Source: RocketMQ RebalanceLockManager, ClientHousekeepingService.
"""

from functools import partial

from ....store.broker.clients import LOCK_MS_MAX
from ....store.broker.housekeeping import INTERVAL_MS
from ....store.broker.requests import RequestCode
from ...oracle.group_delivery import Queue
from ...oracle.queue_locks import QueueLocks
from .broker_user import BrokerUser, UserContext
from .commands import lock_command

RACERS_NET = 121
"""The last byte of the racer's IP address."""
_GROUPS = 6
_CLIENTS = 3
_NS_PER_MS = 1_000_000
_EARLY_MS, _LOOK_MS = 2, 100
_PAUSES_MS = (1, 2, 2, 5, 20)
_ASKS_MAX, _AFTER_MS = 3, 100
_UNLOCK_CHANCE = 0.1


class LockRacer(BrokerUser):
    """Races in several groups, each in a task of its own. Each race has a new group and its own clients."""

    def __init__(self, run: UserContext) -> None:
        super().__init__(run, "lock racer", RACERS_NET)
        self._suffix = ""
        self.machine.switch_on()

    @property
    def client_id(self) -> str:
        return super().client_id + self._suffix

    def begin(self) -> None:
        for number in range(_GROUPS):
            self.world.tasks.spawn(f"race {number}", partial(self._race_repeatedly, number))

    def _race_repeatedly(self, number: int) -> None:
        clients = [self._make_client(f"-{number}-{client}") for client in range(_CLIENTS)]
        self.rest(number * INTERVAL_MS)
        races = 0
        while not self.insists:
            races += 1
            broker = self.stream.choice(sorted(self.run.accounts), "broker")
            self._race(clients, broker, f"racers-{self.machine.lives}-{number}-{races}")
            self.rest(_LOOK_MS)

    def _make_client(self, suffix: str) -> "LockRacer":
        client = self.with_own_connections()
        client._suffix = suffix
        return client

    def _race(self, clients: list["LockRacer"], broker: str, group: str) -> None:
        """Lock queues, let the locks expire, and ask for them around the time of their removal."""
        ledger, locks = self.run.accounts[broker].ledger, QueueLocks()
        life = ledger.life
        known = [(topic, ledger.topics[topic]) for topic in self.run.topics if topic in ledger.topics]
        queues = [(topic, number) for topic, last in known for number in range(last + 1)]

        def ask(client: "LockRacer", *, unlocks: bool = False) -> None:
            if self.insists or ledger.life != life:
                return
            if unlocks:
                client._unlock(broker, group, locks, queues)
            else:
                client.ask_for_locks(broker, group, locks, queues)

        def ask_soon(client: "LockRacer") -> None:
            for _ in range(self.stream.randint(1, _ASKS_MAX, "requests for locks")):
                self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause before a request for locks"))
                ask(client, unlocks=self.stream.chance(_UNLOCK_CHANCE, "unlocks"))

        for client in clients:
            ask(client)
        self._await_removal(broker, self.now_ns + LOCK_MS_MAX * _NS_PER_MS)
        for task in [self.world.tasks.spawn("ask soon", partial(ask_soon, client)) for client in clients]:
            task.join(None)
        self.rest(_AFTER_MS)  # by then the removal is over
        for client in clients:
            ask(client)

    def _await_removal(self, broker: str, expired_ns: int) -> None:
        """Wait until shortly before a broker removes the locks that have expired by a time."""
        while not self.insists:
            at_ns = self.run.tidies_at_ns(broker)
            left_ms = (max(at_ns, expired_ns) - self.now_ns) // _NS_PER_MS - _EARLY_MS
            if at_ns > expired_ns:
                self.rest(left_ms)
                return
            self.rest(max(left_ms, _LOOK_MS))

    def _unlock(self, broker: str, group: str, locks: QueueLocks, queues: list[Queue]) -> None:
        locks.record_unlock_request(self.client_id, queues)
        reply = self.ask(broker, lock_command(RequestCode.UNLOCK_BATCH_MQ, group, self.client_id, broker, queues))
        if reply is not None and reply.is_success and reply.is_of_this_life:
            locks.record_unlock_answer(self.client_id, queues, self.now_ns)
