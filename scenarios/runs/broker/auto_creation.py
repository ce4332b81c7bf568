"""Auto-creation: topics and groups that brokers create by themselves, while an operator changes them.

    first send      creates a topic, with at most the default number of queues; the operator's settings win (META)
    heartbeat       creates the retry topic of a group, and leaves a changed retry or dead letter topic as it is (META)
    missing name    autoCreateTopicEnable decides whether a send creates a topic, and autoCreateSubscriptionGroup
                    whether a pull creates a group (STATUS)

Source: RocketMQ TopicConfigManager.createTopicInSendMessageMethod, ClientManageProcessor.heartBeat,
SubscriptionGroupManager.findSubscriptionGroupConfig.
"""

from collections.abc import Collection, Mapping
from functools import partial

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import (
    AUTO_CREATE_TOPIC,
    GROUP_CHARACTERS_MAX,
    PERM_READ_WRITE,
    SYSTEM_GROUP_PREFIX,
    dlq_topic,
    retry_topic,
)
from ...oracle.evidence import Violation
from ...oracle.operator_tables import Settings
from .answers import PULLED
from .broker_user import BrokerUser
from .commands import CONSUMER_GROUP, PRODUCER_GROUP, groups_heartbeat, make_request, pull_command
from .group_member import GROUP
from .message_options import EVERYTHING
from .refused_requests import send_to_missing_queue
from .retry_consumer import GROUP as RETRY_GROUP
from .table_changes import OWN_TOPICS, PERMS, TableChanges

_RETRIED = "operated-retriers"
"""A group of the operator with a changed retry topic."""
_UNIT_SUBSCRIBED = 2
"""The flag in topicSysFlag of a retry topic whose group consumes in unit mode."""
_MISSING = "missing"
_LONGEST_GROUP = "m" * GROUP_CHARACTERS_MAX
_MISSING_GROUPS: Mapping[str, bool | None] = {
    _MISSING: None,
    _LONGEST_GROUP: None,
    f"{_LONGEST_GROUP}m": False,
    "no group": False,
    f"{SYSTEM_GROUP_PREFIX}{_MISSING}": True,
}
"""Name -> whether a broker creates the group. None: autoCreateSubscriptionGroup decides."""
_SENDS_AT_ONCE = 3
_QUEUES_ASKED = (0, 1, 2, 3, 99)
_CREATED = "queueId of topic"
"""In the remark of the answer to `send_to_missing_queue`, if the topic exists."""


class AutoCreation:
    """The requests of one operator for topics and groups that a broker may create by itself."""

    def __init__(self, user: BrokerUser, changes: TableChanges) -> None:
        self._user = user
        self._changes = changes
        self._heartbeat_unanswered_in: dict[str, int] = {}
        """Broker -> its start in which it may still execute a heartbeat of the operator's group."""

    def create_beside_sends(self, broker: str) -> None:
        """Create topics while producers send to them, for which the broker creates the topics, too.

        The broker refuses the sends, because their queue does not exist. The operator's settings must win.
        """
        for topic in OWN_TOPICS * 2:
            self._create_beside_send(broker, topic)
        self._changes.read_tables(broker)

    def _create_beside_send(self, broker: str, topic: str) -> None:
        user, stream = self._user, self._user.stream
        table = user.run.accounts[broker].tables.topics
        deleted = self._changes.delete_topic(broker, topic)
        if deleted is None or not deleted.is_success:
            return
        sends = [table.record_request(topic, self._settings_of_first(1)) for _ in range(_SENDS_AT_ONCE)]
        answered = []

        def send(delay_ms: int) -> None:
            user.world.tasks.sleep(delay_ms)
            answered.append(user.ask(broker, send_to_missing_queue(topic)))

        spawn, delays_ms = user.world.tasks.spawn, range(_SENDS_AT_ONCE)
        tasks = [spawn(f"send {delay_ms}", partial(send, delay_ms)) for delay_ms in delays_ms]
        queues = stream.randint(2, 4, "queues of a topic")
        reply = self._changes.put_topic(broker, topic, queues, queues, stream.choice(PERMS, "own perm"), order=False)
        for task in tasks:
            task.join(None)
        if reply is None or not reply.is_success or None in answered:
            for each in sends:
                each.is_given_up = True
            return
        for each in sends:
            table.record_refusal(topic, each)

    def create_by_send(self, broker: str) -> None:
        """Delete a topic, and let a producer create it that asks for any number of queues."""
        stream, table = self._user.stream, self._user.run.accounts[broker].tables.topics
        topic = stream.choice(OWN_TOPICS, "topic of a first send")
        deleted = self._changes.delete_topic(broker, topic)
        if deleted is None or not deleted.is_success:
            return
        queues, unit = stream.choice(_QUEUES_ASKED, "queues asked for"), stream.chance(0.3, "unit mode")
        change = table.record_request(topic, self._settings_of_first(queues, unit=unit))
        reply = self._user.ask(broker, send_to_missing_queue(topic, queues, unit=unit))
        if reply is not None and reply.is_of_this_life and _CREATED in (reply.response.remark or ""):
            table.record_success(topic, change, reply.answered_ns)
        else:
            change.is_given_up = True
        self._changes.read_tables(broker)

    def _settings_of_first(self, queues: int, *, unit: bool = False) -> Settings:
        """Return the settings of a topic that a broker creates for `send_to_missing_queue`."""
        made = max(1, min(queues, self._user.plan.queues_per_topic + 1))
        return made, made, PERM_READ_WRITE, False, int(unit), "SINGLE_TAG"

    def use_missing_names(self, broker: str) -> None:
        """Send to an unknown topic, or pull for an unknown group. The settings decide whether the broker creates it."""
        user, settings = self._user, self._user.plan.broker_settings
        if settings.auto_create_topic_enable or user.stream.chance(0.5, "missing group"):
            group = user.stream.choice([*_MISSING_GROUPS], "name of a missing group")
            code, known = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, _MISSING_GROUPS[group]
            is_made = settings.auto_create_subscription_group if known is None else known
            done: Collection[ResponseCode] = PULLED
            what, topic = "group", user.run.topics[0]
            command = pull_command(topic, 0, 0, EVERYTHING, most=1, suspend_ms=0, group=group)
        else:
            code, is_made, what, done = ResponseCode.TOPIC_NOT_EXIST, False, "topic", (ResponseCode.SUCCESS,)
            fields = {"a": PRODUCER_GROUP, "b": _MISSING, "c": AUTO_CREATE_TOPIC, "d": "1", "e": "0", "f": "0"}
            fields |= {"g": str(user.world.clock.now_ms()), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
            command = make_request(RequestCode.SEND_MESSAGE_V2, b"nothing", **fields)
        reply = user.ask(broker, command)
        if reply is None or not reply.is_of_this_life:
            return
        found = reply.response.code
        if (found in done and not is_made) or (found == code and is_made and what == "group"):
            summary = f"a missing {what} is {'used' if found in done else 'refused'}, which contradicts the settings"
            user.run.report([Violation("STATUS", summary, "", -1, "made", str(is_made), ResponseCode(found).name)])

    def change_topic_of_group(self, broker: str) -> None:
        """Change the retry or dead letter topic of a group. Heartbeats of the group must leave it as it is."""
        stream = self._user.stream
        group = stream.choice((_RETRIED, _RETRIED, CONSUMER_GROUP, GROUP, RETRY_GROUP), "group of a topic")
        topic = stream.choice((retry_topic, retry_topic, dlq_topic), "kind of a topic")(group)
        if group != _RETRIED:
            self._put_topic_of_retries(broker, topic)
            return
        life = self._user.run.accounts[broker].ledger.life
        if self._heartbeat_unanswered_in.get(broker) == life:
            return  # the heartbeat may still create the topic
        self._heartbeat_unanswered_in[broker] = life
        if self._use_own_group(broker, topic):
            del self._heartbeat_unanswered_in[broker]
        self._changes.read_tables(broker)

    def change_topic_of_failing_group(self, broker: str) -> None:
        """Change a topic to which the broker returns messages throughout the run."""
        topic = self._user.stream.choice((retry_topic, dlq_topic), "kind of a topic of retries")(RETRY_GROUP)
        self._put_topic_of_retries(broker, topic)

    def _put_topic_of_retries(self, broker: str, topic: str) -> None:
        """Create or change a topic with at least the queues and permissions that the group's retries need."""
        queues = self._user.stream.randint(max(self._user.plan.retry.retry_queues, 1), 4, "queues of retries")
        most = self._user.run.accounts[broker].ledger.returned.queues_max
        most[topic] = max(queues, most.get(topic, 0))
        self._changes.put_topic(broker, topic, queues, queues, PERM_READ_WRITE, order=False)

    def _use_own_group(self, broker: str, topic: str) -> bool:
        """Let heartbeats create the retry topic of a changed group, and keep it. Return whether they were answered.

        topic: that of the group which an operator changes before the last heartbeat.
        """
        user, changes, name = self._user, self._changes, retry_topic(_RETRIED)
        topics = user.run.accounts[broker].tables.topics
        settings, unit = changes.draw_group_settings(), user.stream.chance(0.3, "unit mode")
        changed, deleted = changes.put_group(broker, _RETRIED, settings), changes.delete_topic(broker, name)
        if not (changed and changed.is_success and deleted and deleted.is_success):
            return True
        created = settings[1], settings[1], PERM_READ_WRITE, False, _UNIT_SUBSCRIBED * unit, "SINGLE_TAG"
        heartbeat = groups_heartbeat(user.client_id, [_RETRIED], unit=unit)
        if changes.change(topics, broker, name, created, heartbeat) is None:
            return False
        changes.put_own_topic(broker, topic)
        change, reply = topics.record_request(name, created), user.ask(broker, heartbeat)
        if reply is None or not reply.is_of_this_life:
            change.is_given_up = True
            return False
        topics.record_refusal(name, change)
        return True
