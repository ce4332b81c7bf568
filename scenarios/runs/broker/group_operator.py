"""Group operator: sends random requests for groups that nobody else uses, and compares the answers with a model.

    clients        two, each with a connection of its own, and in half of the acts one of them with two; they consume
                   and produce for up to three groups
    changes        heartbeats, also with fewer topics and older versions, ends of memberships and connections,
                   offsets, clones, resets, settings and deletions of groups
    views          offsets, members, subscriptions, producers, groups of a topic, progress, lowest offsets, pulls
                   without an expression
    replies        to producers, see `group_replies`

The clients must have received exactly the notices of the model. In some acts both clients change a group at the same
time, see `group_race`. All other acts end with a view of each group.
"""

from contextlib import suppress

from ....faults.plan import FaultPlan
from .broker_user import BrokerUser, UserContext
from .commands import member_list_command
from .group_act import GROUP, GroupClient, UncertainError
from .group_offsets import reset, show_correction, show_progress_of_all
from .group_race import race
from .group_replies import GroupReplies
from .operated_group import stays_connected

GROUP_OPERATORS_NET = 119
"""The last byte of the operator's IP address."""
_PAUSES_MS = (5, 100, 1_000, 4_000)
_ACTS_MAX, _REQUESTS = 3, 16
"""The most acts of a run, and the requests of each. All need time of the processor."""
_PAUSE_MS, _PAUSE_CHANCE = 1_000, 0.1
_END_CHANCE = 0.3


class GroupOperator(BrokerUser):
    """Uses its groups at one broker after the other."""

    def __init__(self, run: UserContext) -> None:
        super().__init__(run, "group operator", GROUP_OPERATORS_NET)
        plan = run.plan
        self._is_calm = stays_connected(plan) and plan.faults == FaultPlan() and not plan.capacity_bytes
        self._acts = 0
        self.machine.switch_on()

    def begin(self) -> None:
        if self._is_calm:
            self.world.tasks.spawn("use groups", self._operate)

    def _operate(self) -> None:
        while self._acts < _ACTS_MAX and not self.insists:
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            broker = self.stream.choice(sorted(self.run.accounts), "broker")
            if self.ask(broker, member_list_command(GROUP)) is not None:
                self._acts += 1
                act = GroupReplies(self, broker, self._acts)
                with suppress(UncertainError):
                    self._use_groups(act)
                act.close()

    def _use_groups(self, act: GroupReplies) -> None:
        """Send requests until an answer is missing."""
        stream = self.stream

        def commit(client: GroupClient) -> None:
            for change in act.commits(client):
                act.make(change)

        changes = (*(act.heartbeat,) * 4, act.unregister, act.clone, act.delete, act.set_group, act.set_group, act.lock)
        acts = (
            *(lambda client, draw=draw: act.make(draw(client)) for draw in changes),
            commit,
            *(lambda client: reset(act, client),) * 2,
            act.query,
            act.list_members,
            act.list_connections,
            act.list_producers,
            act.list_groups,
            act.show_progress,
            lambda client: show_progress_of_all(act, client),
            *(lambda client: show_correction(act, client),) * 2,
            *(act.pull,) * 3,
            act.check_expression,
            act.commit_one_way,
            *(act.reply,) * 3,
        )
        ends_connection = stream.chance(_END_CHANCE, "a connection ends")
        for client in act.clients:
            act.make(act.heartbeat(client))
        for client in act.clients:
            act.reply(client)
        act.check_notices()
        races = self.plan.broker.group_races
        for _ in range(races):
            race(act)
        if not races:
            for _ in range(_REQUESTS):
                client = stream.choice(act.clients, "client")
                stream.choice(acts, "request of a model")(client)
                if stream.chance(_PAUSE_CHANCE, "pauses"):
                    self.world.tasks.sleep(_PAUSE_MS)
            self._look_at_all(act)
        act.check_notices()
        if ends_connection:
            act.end_connection()
            act.reply(act.clients[0])
            act.check_notices()

    @staticmethod
    def _look_at_all(act: GroupReplies) -> None:
        """Compare each group with the model, because random views see few of the changes before them."""
        client = act.clients[0]
        for group in act.groups:
            act.list_connections(client, chosen=group)
            act.list_producers(client, chosen=group)
            act.show_progress(client, chosen=group)
        for _ in act.run.topics:
            show_correction(act, client)
        show_progress_of_all(act, client)
