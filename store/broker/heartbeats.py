"""What a client says of itself every so often: who it is, and for which groups it produces and consumes what.

Source: RocketMQ HeartbeatData, ConsumerData, ProducerData.
"""

from dataclasses import dataclass

from ..formats.remoting.json_body import Members, decode_json_body
from .subscriptions import SubscriptionData

GROUPS_MAX = 4096
"""Of one heartbeat, and likewise the topics of one of its groups."""


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
            members.text("groupName"),
            members.text("consumeType", "CONSUME_PASSIVELY"),
            members.text("messageModel", "CLUSTERING"),
            members.text("consumeFromWhere", "CONSUME_FROM_LAST_OFFSET"),
            members.boolean("unitMode", False),
            tuple(map(SubscriptionData.of, members.objects("subscriptionDataSet", GROUPS_MAX))),
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
            members.text("clientID"),
            tuple(each.text("groupName") for each in members.objects("producerDataSet", GROUPS_MAX)),
            tuple(map(ConsumerData.of, members.objects("consumerDataSet", GROUPS_MAX))),
        )
