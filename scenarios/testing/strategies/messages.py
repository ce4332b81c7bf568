"""Messages of producers, with values up to each limit of the format and just beyond it."""

from hypothesis import strategies as st

from ....store.formats.batch import BatchUnit, encode_batch
from ....store.formats.message import MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES
from ....store.formats.messages import Message, MessageBatch
from ....store.formats.properties import ENTRY_SEPARATOR, NAME_SEPARATOR, encode_properties

_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SAME_HASH = ("AaAa", "BBBB", "AaBB")
"""Words with the same Java hash."""
_QUEUE_ID_MAX = 0x7FFFFFFF
_PRINTED = st.characters(exclude_characters=NAME_SEPARATOR + ENTRY_SEPARATOR + "\0", exclude_categories=["Cs"])


def topics() -> st.SearchStrategy[str]:
    """Return topics of 1 to 127 bytes, some not ASCII."""
    plain = st.text(_WORD + "%", min_size=1, max_size=20)
    widest = st.sampled_from(("t" * MAX_TOPIC_BYTES, "ü" * (MAX_TOPIC_BYTES // 2), "%RETRY%group"))
    return plain | widest


def tags() -> st.SearchStrategy[str]:
    """Return tags. Some tags are empty, and some have the same hash."""
    return st.just("") | st.sampled_from(_SAME_HASH) | st.text(_WORD, min_size=1, max_size=12)


def keys() -> st.SearchStrategy[str]:
    """Return KEYS properties: words separated by spaces. Some words repeat between messages or have the same hash."""
    word = st.sampled_from((*_SAME_HASH, "order-1")) | st.text(_WORD, min_size=1, max_size=12)
    return st.lists(word, max_size=4).map(" ".join)


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Return user properties with names that no broker interprets."""
    names = st.text(_WORD, min_size=1, max_size=8).map("u-{}".format)
    return st.dictionaries(names, st.text(_PRINTED, min_size=1, max_size=20), max_size=4)


def bodies(max_bytes: int = 300) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=max_bytes)


@st.composite
def messages(draw: st.DrawFn, topic: st.SearchStrategy[str] | None = None, max_body_bytes: int = 300) -> Message:
    """Return messages that a store with enough space must accept and return unchanged."""
    return Message.create(
        draw(topics() if topic is None else topic),
        draw(bodies(max_body_bytes)),
        queue_id=draw(st.integers(0, 7) | st.just(_QUEUE_ID_MAX)),
        tags=draw(tags()),
        keys=draw(keys()),
        properties=draw(properties()),
    )


@st.composite
def messages_out_of_bounds(draw: st.DrawFn) -> Message:
    """Return messages that a store must refuse, because one value is just beyond its limit or invalid."""
    message = draw(messages())
    message.topic, message.queue_id, message.properties = draw(
        st.sampled_from(
            (
                *((topic, 0, "") for topic in _IMPOSSIBLE_TOPICS),
                ("T", -1, ""),
                ("T", 0, _properties_of(MAX_PROPERTIES_BYTES + 1)),
                ("T", 0, "a\1zero\0"),
            )
        )
    )
    return message


def batches(max_messages: int = 4, max_body_bytes: int = 100) -> st.SearchStrategy[MessageBatch]:
    units = st.lists(messages(st.just("T"), max_body_bytes), min_size=1, max_size=max_messages)
    return st.builds(_make_batch, topics(), st.integers(0, 7), units)


_IMPOSSIBLE_TOPICS = ("", "t" * (MAX_TOPIC_BYTES + 1), "ü" * (MAX_TOPIC_BYTES // 2 + 1), "a/b", ".", "..", "zero\0")


def _properties_of(size: int) -> str:
    head = encode_properties({"u": ""})
    return head + "v" * (size - len(head))


def _make_batch(topic: str, queue_id: int, units: list[Message]) -> MessageBatch:
    encoded = encode_batch(BatchUnit(one.flag, one.body, one.properties.encode()) for one in units)
    return MessageBatch(Message(topic, queue_id=queue_id), encoded)
