"""Features: what a plan may have beside its core, a spec for each, whose fields are knobs.

A knob is a field that carries all that others have to know of it: the options that a scenario draws from if it says
nothing, what it is when it is plain, how far it can be lowered. Ranges, drawing, reading, shrinking, and what a session
has no steps for are derived from that. So a new knob is a field here, and the place where it is used.

Sizes are bytes, times ms of virtual time; chances are per message unless a field says otherwise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

_KEY = "knob"


@dataclass(frozen=True, slots=True)
class Knob:
    """What is known of one field of a plan."""

    options: Sequence[Any]
    """What it is drawn from unless a scenario's ranges say otherwise; the first is its default."""
    plain: Any = None
    """What it is in the plainest plan: what shrinking tries; None: shrinking leaves it alone."""
    least: int | None = None
    """How far shrinking lowers it; None: not at all."""
    weight: int = 0
    """How much falls away with it: what weighs more is tried first."""
    in_sessions: bool = True
    """Whether a session, whose steps come one by one, can do what it asks for."""


def knob(*options: Any, plain: Any = None, least: int | None = None, weight: int = 0, in_sessions: bool = True) -> Any:
    """Return a dataclass field that is a knob."""
    assert options, "a knob needs a default"
    assert plain is None or least is None, "shrinking either takes the plain value or lowers step by step"
    return field(default=options[0], metadata={_KEY: Knob(options, plain, least, weight, in_sessions)})


def knobs_of(kind: type) -> Iterator[tuple[str, Knob]]:
    """Yield the knobs of a dataclass by name; a field that says nothing of itself is drawn as its default."""
    for each in fields(kind):
        if _KEY in each.metadata:
            yield each.name, each.metadata[_KEY]
        elif each.default is not MISSING:
            yield each.name, Knob((each.default,))


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """What is put, and how."""

    body_bytes_max: int = knob(0, 40, 300, 900, least=0)
    property_bytes_max: int = knob(0, 0, 700, least=0)
    equal_sizes: bool = knob(False, False, True)
    limit_bytes: int = knob(0, plain=0)
    """The longest body, or batch, that the store is set to take; 0: longer than any segment."""
    batch_chance: float = knob(0.0, 0.0, 0.2, plain=0.0)
    illegal_chance: float = knob(0.0, 0.0, 0.1, plain=0.0)
    longest_chance: float = knob(0.0, plain=0.0)
    """Of a put that goes straight to its queue, to have properties about as long as a record can hold."""
    no_wait_chance: float = knob(0.0, 0.0, 0.2, plain=0.0)


@dataclass(frozen=True, slots=True)
class PausePlan:
    """How long producers wait between two messages."""

    chance: float = knob(0.0, 0.2, 0.5, plain=0.0)
    ms_max: int = knob(1, 30, 3000, least=1)


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """How patient the store is with its disk."""

    sync_timeout_ms: int = knob(5000)
    """How long a put waits for its flush under SYNC_FLUSH."""
    thorough_interval_ms: int = knob(2000, 10_000)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The key index, its keys and its users."""

    slots: int = knob(0, 5, 40, plain=0)
    """Hash slots of an index file; 0 leaves the index off."""
    entries: int = knob(5, 12, 200)
    keys_chance: float = knob(0.0, plain=0.0)
    """Of a message, to have keys that it shares with others, a UNIQ_KEY among them."""
    seekers: int = knob(0, plain=0, weight=1)
    """Users who look messages up by their keys."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the store does with memory, and what becomes of it when there is none."""

    transient_pool: bool = knob(False, plain=False)
    """Whether puts go to a buffer of the process first; counts under ASYNC_FLUSH only."""
    warm_files: bool = knob(False, False, True, plain=False)
    error_chance: float = knob(0.0)
    """Of a life, that one service ends in it of an error that it does not foresee."""


@dataclass(frozen=True, slots=True)
class DelayPlan:
    """Messages that are delivered later."""

    chance: float = knob(0.0, plain=0.0, weight=3, in_sessions=False)


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """Half messages, which are decided later or never."""

    chance: float = knob(0.0, plain=0.0, weight=4, in_sessions=False)


@dataclass(frozen=True, slots=True)
class LightQueuePlan:
    """Messages that are in light queues beside their own."""

    chance: float = knob(0.0, plain=0.0, weight=2, in_sessions=False)


@dataclass(frozen=True, slots=True)
class ConsumingPlan:
    """What consumers do beside walking their queues."""

    filtered: bool = knob(False, plain=False)
    commits_offsets: bool = knob(False, plain=False, in_sessions=False)
    """Whether they commit how far they came."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What somebody has deleted while there is traffic."""

    deletes_segments: bool = knob(False, plain=False, weight=2, in_sessions=False)
    """Old ones of the log."""
    deletes_queues: bool = knob(False)
    """Whether queues that lead nowhere go, too, while others put and pull; counts with deletes_segments."""


@dataclass(frozen=True, slots=True)
class StartPlan:
    """What is odd about the store's starts."""

    second: bool = knob(False, plain=False, weight=1)
    """Whether somebody starts a second store on the directory while there is traffic."""
    skipped_numbers_max: int = knob(0, plain=0, weight=1, in_sessions=False)
    """The most numbers that a queue skips when the store is started again, as where 4.9.8 restarted it; 0: none."""


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    """Where the directories of a store alone are, on a disk that has none of them yet."""

    root: str = knob("/store", plain="/store")
    """The root as it is configured: below the working directory if the path is relative."""
    log_directories: int = knob(1, plain=1)
    """The number of the log's directories. Several are outside the root, two new levels each."""
    killed_in_creation: bool = knob(False, plain=False)
    """Whether one more process comes first, which is killed while it creates the root."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The machines beside the one that users talk to; what is as it is by default is a store alone."""

    slaves: int = knob(0, plain=1, weight=4)
    """How many follow the master; 0: nobody, and there is no network."""
    sync_master: bool = knob(False, plain=False)
    """Whether puts wait for a slave."""
    slave_sync_flush: bool = knob(False, plain=False, weight=1)
    """Whether what slaves report is durable there."""
    slave_timeout_ms: int = knob(3000)
    """How long a put waits for a slave."""
    transfer_batch_bytes: int = knob(32_768, plain=32_768, weight=2)
    """How much of the log goes into one frame at most."""
    flipped_bit_chance: float = knob(0.0)
    """Of a life of a slave, that dispatch is handed a record there with one bit of its queueOffset wrong."""
    gathers: bool = knob(False, plain=False, weight=3)
    """Whether users begin only when slaves follow the master, or have had time enough to."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """How users reach the store; by default they are beside it, and no broker is in front."""

    serves: bool = knob(False)
    """Whether there is a broker: producers and consumers are then clients on other machines."""
    send_timeout_ms: int = knob(3_000)
    """How long a producer waits for an answer before it sends again."""
    sends_max: int = knob(3, plain=1, weight=2)
    """How often a producer sends a message before it gives it up."""
    suspend_ms: int = knob(5_000)
    """How long a pull is held that finds nothing."""
    pull_messages_max: int = knob(8, plain=32)
    commits_with_pulls: bool = knob(True, plain=True, weight=1)
    """Whether consumers commit with the next pull, or by a request of its own."""
    consumer_restart_chance: float = knob(0.0, plain=0.0, weight=4)
    """Of a consumer, at the end of each life of the broker, to begin again from what it has committed."""
    send_back_chance: float = knob(0.0, plain=0.0, weight=3)
    """Of a message that a consumer was given, to be sent back: it cannot be dealt with yet."""
    client_death_chance: float = knob(0.0, plain=0.0, weight=4)
    """Of a producer's machine in a send, a consumer's with messages in hand, a tailing one's after a pull, to die."""
    tailing_consumers: int = knob(0, plain=0, weight=2)
    """How many consumers follow a queue each from its end on, in groups of their own."""
    tasks_each: int = knob(1, plain=1, weight=3)
    """How many tasks each kind of request has in the broker."""
    buffer_bytes: int = knob(65_536, plain=65_536)
    """How much of a stream is under way or unread before its sender waits."""
    rest_ms_max: int = knob(0, plain=0, weight=1)
    """How long a life of the broker goes on at most when producers are done."""
    work_ms: int = knob(1, plain=1)
    """How long a consumer deals with what one pull has given it; 0: its next pull meets what arrives meanwhile."""
    off_ms_max: int = knob(1_000, plain=1)
    """How long the broker's machine is off between two lives at most."""
    masters: int = knob(1, plain=1, weight=4)
    """How many brokers have each topic; the first may have the slaves that a cluster has. Each is a name server."""
    slaves_are_read: bool = knob(False, plain=False, weight=1)
    """Whether a consumer that is far behind is sent to a slave, and may pull from one while no route has the master."""
    resumes_checks: bool = knob(False, plain=False, weight=2)
    """Whether operators have half messages that were given up asked about again: some, and in the end all of them."""
    cpp_clients: bool = knob(False, plain=False, weight=1)
    """Whether clients write headers as RocketMQ's C++ client does: with numbers and booleans in place of texts."""
    slave_takes_over: bool = knob(False, plain=False, weight=3)
    """Whether in the end, when all is well, the first master is lost, and a slave is restarted as master."""
