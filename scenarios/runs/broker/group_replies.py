"""Group replies: replies of consumers to waiting producers, and commits without an answer.

    SEND_REPLY_MESSAGE  SEND_REPLY_MESSAGE_V2  PUSH_REPLY_MESSAGE_TO_CLIENT
    UPDATE_CONSUMER_OFFSET  one way, as RocketMQ's clients usually send it

A reply goes to the client named in it, over the connection that joined the producers of a group last. The broker also
stores it if storeReplyMessageEnable is on. A client that has left gets none, and the answer says so (STATUS).
Source: RocketMQ ReplyMessageProcessor, MessageUtil.createReplyMessage, RemoteBrokerOffsetStore.
"""

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.host import Host
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.group_model import Notice
from ...oracle.put_entry import PutContent, PutEntry
from ...oracle.reader import in_java_map_order
from .answers import note_answer
from .commands import make_request, update_offset_command, with_letters
from .group_act import GroupClient, UncertainError, content_of
from .group_views import GroupViews
from .routes import BrokerAddress

_TOPIC, _MISSING = "DefaultCluster_REPLY_TOPIC", "nobody"
_WORDS_CHANCE, _UNIT_CHANCE, _WAIT_CHANCE = 0.3, 0.3, 0.5
_OFFSETS = (1, 2, 3, 9)
_POLL_MS = 20


class GroupReplies(GroupViews):
    """An act with replies."""

    def _address(self) -> BrokerAddress:
        address = self.user.routes.broker_for_offsets(self.broker, self.run.topics[0])
        if address is None:
            raise UncertainError
        return address

    def reply(self, client: GroupClient) -> None:
        """Reply to a client, or to one that the broker does not know."""
        if self.user.plan.broker_settings.accepts_sends_after_ms:
            return
        ids = sorted({each.client_id for each in self.clients})
        target, ledger = self.stream.choice((*ids, *ids, _MISSING), "who gets the reply"), self._account.ledger
        name = f"{client.client_id}-reply-{len(ledger.puts)}"
        forms, now_ms, host = self.forms.with_subject(name), self.user.world.clock.now_ms(), client.user.machine.host
        born_ms = now_ms + forms.choice((0, -86_400_000, 3_600_000), "ms that the clock is ahead")
        flag, times = forms.choice((0, 1, 7), "flag"), forms.choice((0, 1, 3), "retries")
        properties = {"KEYS": name, "CORRELATION_ID": name, "MSG_TYPE": "reply", "REPLY_TO_CLIENT": target}
        text = "".join(f"{key}\1{value}\2" for key, value in properties.items())
        fields = {"producerGroup": self.groups[0], "topic": _TOPIC, "defaultTopic": "TBW102"}
        fields |= {"defaultTopicQueueNums": "4", "queueId": forms.choice(("0", "-1"), "queue"), "sysFlag": "0"}
        numbers = {"bornTimestamp": born_ms, "flag": flag, "reconsumeTimes": times}
        unit = {"unitMode": forms.chance(_UNIT_CHANCE, "unit mode")}
        sent = text + "WAIT\1true\2" * forms.chance(_WAIT_CHANCE, "names WAIT")
        body = f"reply to {target}".encode()
        command = make_request(RequestCode.SEND_REPLY_MESSAGE, body, **fields, **numbers, **unit, properties=sent)
        pushed = {**command.ext_fields, "properties": f"{sent}PUSH_REPLY_TIME\1now\2", "bornHost": host}
        push = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 0, ext_fields=pushed, body=body)
        if not forms.chance(_WORDS_CHANCE, "words"):
            command = with_letters(command, RequestCode.SEND_REPLY_MESSAGE_V2)
        stored = in_java_map_order(properties | {"CLUSTER": "DefaultCluster"})
        put = PutEntry(name, _TOPIC, 0, "", body, stored, True, self.user.now_ns)
        hosts = Host.of_address(f"{host}:0"), Host.of_address(self._address().address)
        put.content, put.knows_port, put.over_in = PutContent(flag, born_ms, *hosts, times), False, None
        is_stored = self.user.plan.broker_settings.store_reply_message_enable
        if is_stored:
            ledger.record_request(put)
        try:
            reply = self.ask(client, command, ResponseCode.SYSTEM_ERROR)
        finally:
            put.over_in = ledger.life
        is_found = self.model.reply(target, Notice(push.code, content_of(push)))
        self.report("STATUS", f"a reply to {target}, connected {is_found}", is_found, reply.is_success)
        place = reply.response.ext_fields.get("msgId", "0")
        if not is_stored:
            self.report("STATUS", "a reply that is not stored has an id", "0", place)
        elif place != "0":
            at = {"asked_in": self._life, "now_ns": reply.answered_ns}
            self.run.report(note_answer(self._account, [put], reply.response, None, makes_topic=False, **at))

    def commit_one_way(self, client: GroupClient) -> None:
        """Commit without an answer. A query must see the offset within the time of a request (LIVE)."""
        group = self.draw_group()
        queue, offset = self.draw_queue(group), self.stream.choice(_OFFSETS, "offset without an answer")
        if queue is None or self.model.offsets.get(group, {}).get(queue) == offset:
            return
        try:
            connection = client.user.routes.client(self._address())
            connection.invoke_one_way(update_offset_command(*queue, offset, group))
        except OSError as error:
            raise UncertainError from error
        self.model.commit(group, queue, offset)
        user = client.user
        until_ns, is_over = user.now_ns + self._account.members.late_ms_max * 1_000_000, False
        while (found := self.offset_of(client, group, queue)) != offset and not is_over:
            user.world.tasks.sleep(_POLL_MS)
            is_over = user.now_ns > until_ns
        self.report("LIVE", f"a commit of {group} without an answer has no effect", offset, found)
