"""What producers hand in beside topic, queue and body, and what is odd about their keys and tags.

Half of the producers' messages are plain. The others have flags, times and hosts, IPv6 among them, that no two fields
have in common, so that one that is dropped, swapped or cut short shows; and some have words among their keys, and tags,
that only who counts spaces, code units and bytes right makes the same of as RocketMQ does. Hosts are IPv4 where all
records of a run are to have one size.
"""

from typing import NamedTuple

from ...sim.choices import Stream
from ...store.formats.host import Host
from ...store.message import Message
from ..oracle.put_entry import PLAIN, PutContent

_VARIED_CHANCE = 0.5
_ODD_CHANCE = 0.3
_FLAGS = (0, 1, 7, -1, 0x7FFF_FFFF, -0x8000_0000)
_BORN_MS_AGO = (0, 1, 3_600_000, -86_400_000)
"""How far a client's clock is behind."""
_HOSTS = ((bytes((192, 0, 2, 7)), 40_001), (bytes((198, 51, 100, 250)), 65_535))
_HOSTS_V6 = (
    (bytes.fromhex("20010db8000100020003000400050006"), 40_006),
    (bytes.fromhex("fe80000000000000a00b0c0d0e0f1011"), 1),
)
_RECONSUME_TIMES = (0, 1, 3, 16)
_SYS_FLAGS = (0, 0x1, 0x2, 0x3, 0x201)
"""Compressed, and how, and more tags than one: a store takes no notice of either."""
_WORDS = (
    *("two  words", " leading", "trailing "),
    *("\N{OLD ITALIC LETTER A}\N{GRINNING FACE}", "naïve", "tab\tbed", "名前"),
)
_TAGS = ("\N{GRINNING FACE}", " TagA", "TagA ", "Étiquette", "taga", "Tag A", "polygenelubricants", "标签")
"""None that anybody subscribes to: what is drawn here changes no subscriber's messages but by leaving some out."""


class Oddities(NamedTuple):
    """What is odd about one message."""

    words: tuple[str, ...] = ()
    """More keys, as they are written into KEYS: with spaces of their own."""
    tags: str | None = None
    """The tag it has in place of what was drawn for it; None: it keeps that."""


NO_ODDITIES = Oddities()


def draw_given(stream: Stream, now_ms: int, *, one_size: bool) -> PutContent:
    """Draw what one message, or all of a batch, is handed in with."""
    if not stream.chance(_VARIED_CHANCE, "header"):
        return PLAIN
    hosts = _HOSTS if one_size else _HOSTS + _HOSTS_V6
    return PutContent(
        draw_flag(stream),
        now_ms - stream.pick(_BORN_MS_AGO, "born ms ago"),
        stream.pick(hosts, "born host"),
        stream.pick(hosts, "store host"),
        stream.pick(_RECONSUME_TIMES, "reconsume times"),
        stream.pick(_SYS_FLAGS, "sysFlag"),
    )


def draw_flag(stream: Stream) -> int:
    """Draw the user's flag of a message."""
    return stream.pick(_FLAGS, "flag")


def draw_oddities(stream: Stream) -> Oddities:
    """Draw what is odd about a message's keys and tag."""
    if not stream.chance(_ODD_CHANCE, "odd"):
        return NO_ODDITIES
    words = tuple(stream.pick(_WORDS, "word") for _ in range(stream.below(3, "words")))
    return Oddities(words, stream.pick((None, *_TAGS), "odd tag"))


def message_of(
    topic: str,
    body: bytes,
    queue_id: int,
    properties: str,
    given: PutContent,
    *,
    wait: bool,
    sys_flag: int = 0,
) -> Message:
    """Return what is handed to a store. sys_flag: the bits that say what transaction it is part of."""
    return Message(
        topic,
        body,
        queue_id,
        properties,
        given.flag,
        given.sys_flag | sys_flag,
        given.born_timestamp_ms,
        Host(*given.born_host),
        Host(*given.store_host),
        given.reconsume_times,
        wait_store_ok=wait,
    )
