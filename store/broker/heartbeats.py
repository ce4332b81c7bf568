"""What a client says of itself every so often: who it is, and for which groups it produces and consumes what.

Source: RocketMQ HeartbeatData, ConsumerData, ProducerData.
"""

from dataclasses import dataclass

from ..errors import CorruptFileError
from ..formats.remoting.json_body import BODY, Members, decode_json_body
from .subscriptions import SubscriptionData

TEXT_CHARACTERS_MAX = 255
"""Of a client's id and of a group's name: what RocketMQ's clients let a group have, and more than their ids have."""
GROUPS_MAX = 256
"""Of one heartbeat, of each kind: a new one and its retry topic are made durable, one after the other."""
TOPICS_MAX = 4096
"""Of one group."""


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One group that a client consumes for."""

    group: str
    consume_type: str
    """CONSUME_ACTIVELY, by calls of its own, or CONSUME_PASSIVELY, by being called."""
    message_model: str
    """CLUSTERING, where a group shares the queues, or BROADCASTING."""
    consume_from_where: str
    unit_mode: bool
    subscriptions: tuple[SubscriptionData, ...]

    @classmethod
    def of(cls, members: Members) -> "ConsumerData":
        """Read it from an object."""
        return cls(
            _name(members, "groupName"),
            members.text("consumeType", "CONSUME_PASSIVELY"),
            members.text("messageModel", "CLUSTERING"),
            members.text("consumeFromWhere", "CONSUME_FROM_LAST_OFFSET"),
            members.boolean("unitMode", False),
            tuple(map(SubscriptionData.of, members.objects("subscriptionDataSet", TOPICS_MAX))),
        )


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """One heartbeat."""

    client_id: str
    producer_groups: tuple[str, ...]
    consumers: tuple[ConsumerData, ...]

    @classmethod
    def decode(cls, body: bytes) -> "HeartbeatData":
        """Read a request's body. Raises CorruptFileError, which names what is wrong with it."""
        members = decode_json_body(body)
        return cls(
            _name(members, "clientID"),
            tuple(_name(each, "groupName") for each in members.objects("producerDataSet", GROUPS_MAX)),
            tuple(map(ConsumerData.of, members.objects("consumerDataSet", GROUPS_MAX))),
        )


def _name(members: Members, name: str) -> str:
    """Return a text that others are sent: what no frame could hold must not get in."""
    found = members.text(name)
    if len(found) > TEXT_CHARACTERS_MAX:
        raise CorruptFileError(BODY, 0, name, f"at most {TEXT_CHARACTERS_MAX} characters", len(found))
    return found
