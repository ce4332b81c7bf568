"""Features: the optional parts of a plan, one spec class for each.

The fields of a spec class are knobs, the parameters of a plan. The definitions of knobs determine ranges, random
choice, parsing, shrinking and the limits of sessions. A new knob needs one field here, and the code that uses its
value.

Sizes are in bytes, times in ms of virtual time. A chance is a probability per message unless its docstring names
another unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

_KEY = "knob"


@dataclass(frozen=True, slots=True)
class Knob:
    """The definition of one field of a plan."""

    options: Sequence[Any]
    """The possible values if the scenario does not narrow them. The first is the default."""
    plain: Any = None
    """The value in the simplest plan, which shrinking tries; None: shrinking does not change the knob."""
    least: int | None = None
    """The lowest value that shrinking tries; None: shrinking does not lower the knob."""
    weight: int = 0
    """How much the feature adds to a run. Shrinking tries knobs with greater weights first."""
    in_sessions: bool = True
    """Whether a session, which runs one step at a time, supports the knob."""


def knob_field(
    *options: Any, plain: Any = None, least: int | None = None, weight: int = 0, in_sessions: bool = True
) -> Any:
    assert options, "a knob needs a default"
    assert plain is None or least is None, "shrinking either takes the plain value or lowers step by step"
    return field(default=options[0], metadata={_KEY: Knob(options, plain, least, weight, in_sessions)})


def knobs_of(kind: type) -> Iterator[tuple[str, Knob]]:
    """Yield each field with a knob."""
    for each in fields(kind):
        if _KEY in each.metadata:
            yield each.name, each.metadata[_KEY]
        elif each.default is not MISSING:
            yield each.name, Knob((each.default,))


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """Sizes and kinds of messages."""

    body_bytes_max: int = knob_field(0, 40, 300, 900, least=0)
    property_bytes_max: int = knob_field(0, 0, 700, least=0)
    equal_sizes: bool = knob_field(False, False, True)
    limit_bytes: int = knob_field(0, plain=0)
    """The longest body or batch that the store accepts; 0: longer than any segment."""
    batch_chance: float = knob_field(0.0, 0.0, 0.2, plain=0.0)
    backlog: int = knob_field(0, plain=0, weight=3)
    """Number of messages in the run's first send, a batch of messages with one tag. 0: as in any other send."""
    illegal_chance: float = knob_field(0.0, 0.0, 0.1, plain=0.0)
    longest_chance: float = knob_field(0.0, plain=0.0)
    """The chance that a plain put, neither delayed nor transactional, has properties near the maximum length."""
    no_wait_chance: float = knob_field(0.0, 0.0, 0.2, plain=0.0)
    forwarded_chance: float = knob_field(0.0, plain=0.0, in_sessions=False)
    """The chance that a user forwards a message that he received, with the properties of its delay or transaction."""
    unqueued_chance: float = knob_field(0.0, plain=0.0)
    """The chance that a plain put has the flag of a half or rolled-back message, but not the properties of a
    transaction. The store keeps its record in the log, outside all queues."""


@dataclass(frozen=True, slots=True)
class PausePlan:
    """How long producers wait between two messages."""

    chance: float = knob_field(0.0, 0.2, 0.5, plain=0.0)
    ms_max: int = knob_field(1, 30, 3000, least=1)


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """Timeouts and intervals of flushes."""

    sync_timeout_ms: int = knob_field(5000)
    """The maximum time for which a put waits for its flush under SYNC_FLUSH."""
    thorough_interval_ms: int = knob_field(2000, 10_000)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The key index, the keys of messages, and the users that look up keys."""

    slots: int = knob_field(0, 5, 40, plain=0)
    """Hash slots in an index file. 0: no index."""
    entries: int = knob_field(5, 12, 200)
    keys_chance: float = knob_field(0.0, plain=0.0)
    """The chance that a message has keys that other messages have too, including a UNIQ_KEY."""
    seekers: int = knob_field(0, plain=0, weight=1)
    """Number of users that look messages up by key."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The store's use of memory, and errors when memory runs out."""

    transient_pool: bool = knob_field(False, plain=False)
    """Under ASYNC_FLUSH, puts go to a buffer of the process first."""
    warm_files: bool = knob_field(False, False, True, plain=False)
    error_chance: float = knob_field(0.0)
    """The chance per start of the store that an unexpected error ends one service."""


@dataclass(frozen=True, slots=True)
class DelayPlan:
    """Messages that are delivered later."""

    chance: float = knob_field(0.0, plain=0.0, weight=3, in_sessions=False)


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """Half messages, which producers commit or roll back later or never."""

    chance: float = knob_field(0.0, plain=0.0, weight=4, in_sessions=False)
    delayed_chance: float = knob_field(0.0, plain=0.0, in_sessions=False)
    """The chance that a transactional message has a delay level, which begins at its commit. Needs delay.chance."""
    clock_ahead_ms: int = knob_field(0, plain=0, in_sessions=False)
    """How far the clocks of some producers are ahead of the store's clock; negative: behind it."""


@dataclass(frozen=True, slots=True)
class LightQueuePlan:
    """Messages that also go to light queues."""

    chance: float = knob_field(0.0, plain=0.0, weight=2, in_sessions=False)
    queues_max: int = knob_field(20_000, plain=20_000)
    """maxLmqConsumeQueueNum. The store refuses a message for a further queue with the prefix of light queues."""


@dataclass(frozen=True, slots=True)
class ConsumingPlan:
    """Subscriptions and committed offsets of consumers."""

    filtered: bool = knob_field(False, plain=False)
    commits_offsets: bool = knob_field(False, plain=False, in_sessions=False)
    newcomers: int = knob_field(0, plain=0, weight=1, in_sessions=False)
    """Number of clients that ask for the end of each new queue while dispatch creates the queue."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Deletions during traffic."""

    deletes_segments: bool = knob_field(False, plain=False, weight=2, in_sessions=False)
    deletes_queues: bool = knob_field(False)
    """Empty queues are deleted, too, concurrently with puts and pulls. Needs deletes_segments."""
    delete_when: str = knob_field("", plain="", in_sessions=False)
    """The hours of deletion, if users request none. Empty: they do, at an hour without deletion."""
    forcibly: bool = knob_field(True, plain=True)
    """Whether segments are deleted before they expire if the disk is too full. Without deletes_segments never."""
    hours_off: int = knob_field(0, plain=0)
    """The hours for which the machine is off between two lives. Puts then continue a segment whose first messages are
    old.
    """


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    """Settings of the store, by their names in `StoreConfig`, that change its speed or its answers but no promise."""

    flush_commit_log_timed: bool = knob_field(True, True, True, False, plain=True)
    flush_interval_commit_log_ms: int = knob_field(500, 500, 500, 30, plain=500)
    flush_commit_log_least_pages: int = knob_field(4, 4, 0, 1, plain=4)
    commit_interval_commit_log_ms: int = knob_field(200, 200, 200, 20, plain=200)
    commit_commit_log_least_pages: int = knob_field(4, 4, 0, 1, plain=4)
    commit_commit_log_thorough_interval_ms: int = knob_field(200, 200, 200, 1_000, plain=200)
    fast_fail_if_no_buffer_in_store_pool: bool = knob_field(False, False, False, True, plain=False)
    flush_interval_consume_queue_ms: int = knob_field(1_000, 1_000, 1_000, 50, plain=1_000)
    flush_consume_queue_least_pages: int = knob_field(2, 2, 2, 0, plain=2)
    flush_least_pages_when_warm_mapped_file: int = knob_field(4096, 4096, 1, plain=4096)
    max_transfer_count_on_message_in_memory: int = knob_field(32, 32, 32, 2, plain=32)
    max_transfer_bytes_on_message_in_memory: int = knob_field(262_144, 262_144, 262_144, 700, plain=262_144)
    max_transfer_count_on_message_in_disk: int = knob_field(8, 8, 1, plain=8)
    max_transfer_bytes_on_message_in_disk: int = knob_field(65_536, 65_536, 400, plain=65_536)
    physical_memory_bytes: int = knob_field(20 << 30, 20 << 30, 20 << 30, 4_000, plain=20 << 30)
    long_polling_enable: bool = knob_field(True, True, True, True, True, False, plain=True)
    clean_resource_interval_ms: int = knob_field(10_000, 10_000, 10_000, 700, plain=10_000)
    delete_commit_log_files_interval_ms: int = knob_field(100, 100, 0, plain=100)
    delete_consume_queue_files_interval_ms: int = knob_field(100, 100, 0, plain=100)
    redelete_hanged_file_interval_ms: int = knob_field(120_000, 120_000, 1_000, plain=120_000)
    enable_consume_queue_ext: bool = knob_field(False, False, False, True, plain=False)
    mapped_file_size_consume_queue_ext: int = knob_field(104, 400, 404, 2_000)
    """Units without a bit map have 20 bytes, so 20 of them and the end mark fill 404 bytes exactly."""
    ha_send_heartbeat_interval_ms: int = knob_field(5_000, 5_000, 5_000, 500, plain=5_000)
    ha_housekeeping_interval_ms: int = knob_field(20_000)
    ha_slave_fallbehind_max: int = knob_field(256 << 20)
    flush_delay_offset_interval_ms: int = knob_field(2_000)


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Unusual starts of the store."""

    second: bool = knob_field(False, plain=False, weight=1)
    """A second store starts on the directory during traffic."""
    skipped_numbers_max: int = knob_field(0, plain=0, weight=1, in_sessions=False)
    """The most queue offsets that a queue skips at a restart, as in RocketMQ 4.9.8."""
    switched: str = knob_field("", plain="", weight=1, in_sessions=False)
    """A setting of the store, by its name in `StoreConfig`, that each clean stop switches on or off. Empty: none.
    `max_message_size` switches between the plan's limit and RocketMQ's, a size of the index between the plan's and the
    next one."""


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    """The directories of a single store, which the store creates at its first start."""

    root: str = knob_field("/store", plain="/store")
    """A relative path starts at the working directory."""
    log_directories: int = knob_field(1, plain=1)
    """If there are several log directories, each is outside the root in a new parent directory."""
    killed_in_creation: bool = knob_field(False, plain=False)
    """Whether an earlier process was killed while it created the root."""


@dataclass(frozen=True, slots=True)
class LogDirectoryPlan:
    """The disks of several log directories, and changes between two starts."""

    read_only_from: int = knob_field(0, plain=0)
    """The life, counted from 0, from which on the first of several log directories is read-only. 0: never."""
    full_directory: int = knob_field(0, plain=0)
    """The log directory, counted from 1, that has a small disk of its own during traffic. 0: none."""
    full_at_segments: int = knob_field(1, least=1)
    """The capacity of the small disk, in segments."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The machines of a cluster. By default there is one store without a cluster."""

    slaves: int = knob_field(0, plain=1, weight=4)
    """0: no slave and no network."""
    sync_master: bool = knob_field(False, plain=False)
    """Puts wait for a slave."""
    slave_sync_flush: bool = knob_field(False, plain=False, weight=1)
    """Slaves use sync flush, so a slave reports only offsets that are durable on its disk."""
    slave_timeout_ms: int = knob_field(3000)
    transfer_batch_bytes: int = knob_field(32_768, plain=32_768, weight=2)
    """The most log bytes in a replication frame."""
    flipped_bit_chance: float = knob_field(0.0)
    """The chance, per start of a slave, that its dispatch receives a record with a flipped bit in queueOffset."""
    gathers: bool = knob_field(False, plain=False, weight=3)
    """Users wait, up to a timeout, until slaves follow the master."""
    changes_roles: bool = knob_field(False, plain=False, weight=3)
    """At the end of the run a slave becomes the master while the former one runs, which then returns as a slave."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """The broker and its clients. By default users call the store directly."""

    serves: bool = knob_field(False)
    """The run has a broker. Producers and consumers are then clients on other machines."""
    send_timeout_ms: int = knob_field(3_000)
    """The time after which a producer repeats an unanswered send."""
    sends_max: int = knob_field(3, plain=1, weight=2)
    """How often a producer sends a message before it gives up."""
    suspend_ms: int = knob_field(5_000)
    """The maximum time for which the broker holds a pull without messages."""
    pull_messages_max: int = knob_field(8, plain=32)
    commits_with_pulls: bool = knob_field(True, plain=True, weight=1)
    """Consumers commit an offset with the next pull instead of in a separate request."""
    consumer_restart_chance: float = knob_field(0.0, plain=0.0, weight=4)
    """The chance, per consumer and start of the broker, that the consumer restarts at its committed offsets."""
    registers_filters: bool = knob_field(False, plain=False, weight=2)
    """Consumers register their subscriptions by heartbeats, and pull without them. With extension files, the broker
    evaluates SQL expressions when it dispatches a message.
    """
    send_back_chance: float = knob_field(0.0, plain=0.0, weight=3)
    """The chance that a consumer sends a delivered message back for a retry."""
    client_death_chance: float = knob_field(0.0, plain=0.0, weight=4)
    """The chance that a client's machine dies: producers during a send, consumers with unprocessed messages, tailing
    consumers after a pull.
    """
    tailing_consumers: int = knob_field(0, plain=0, weight=2)
    """Number of consumers that each follow one queue from its end, in their own groups."""
    pulls_in_flight: int = knob_field(1, plain=1, weight=2)
    """Number of pulls that a tailing consumer lets wait at once over one connection, as several groups of a process do.
    """
    light_readers: int = knob_field(0, plain=0, weight=2)
    """Number of consumers that each read one light queue. Without effect unless light queues are enabled."""
    tasks_each: int = knob_field(1, plain=1, weight=3)
    """Broker tasks for each kind of request."""
    buffer_bytes: int = knob_field(65_536, plain=65_536)
    """The bytes of a stream that may be in flight or unread before the sender waits."""
    rest_ms_max: int = knob_field(0, plain=0, weight=1)
    """The maximum time for which the broker continues after the producers have finished."""
    work_ms: int = knob_field(1, plain=1)
    """How long a consumer processes the messages of one pull. 0: it pulls again at once while messages arrive."""
    off_ms_max: int = knob_field(1_000, plain=1)
    """The maximum time between a stop or crash of the broker's machine and its restart."""
    masters: int = knob_field(1, plain=1, weight=4)
    """Number of masters. Each master has queues of every topic and a name server. Only the first master has slaves."""
    slaves_are_read: bool = knob_field(False, plain=False, weight=1)
    """Whether the broker redirects a lagging consumer to a slave.

    The consumer may also pull from a slave while routes do not list the master.
    """
    resumes_checks: bool = knob_field(False, plain=False, weight=2)
    """Operators resume the checks of given-up half messages: some during the run, all others at its end."""
    other_clients: bool = knob_field(False, plain=False, weight=1)
    """Clients send requests in several forms: RocketMQ's C++ client's, with a binary header, in fastjson's dialect."""
    group_members: int = knob_field(0, plain=0, weight=4)
    """Number of orderly consumers of one group. They share the queues by rebalancing, and lock each queue."""
    leave_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per heartbeat, that a group member unregisters or falls silent, and returns later."""
    reconnect_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per heartbeat and broker, that a group member connects again, and ends the old connection later."""
    watches_routes: bool = knob_field(False, plain=False, weight=2)
    """A client compares the routes at every name server with the brokers that run. Needs a network without faults."""
    sends_in_flight: int = knob_field(1, plain=1, weight=2)
    """Number of producers that share the machine and connections of one client. Each waits for its own answers only."""
    operators: int = knob_field(0, plain=0, weight=2)
    """1: an operator creates, changes and deletes topics and groups, and changes permissions of users' topics."""
    group_operators: int = knob_field(0, plain=0, weight=2)
    """1: an operator has groups of its own, and compares each answer about them with a model. Needs a network and disk
    without faults.
    """
    group_races: int = knob_field(0, plain=0, weight=2)
    """How often group operators make two changes of a group at once in an act. 0: they send other requests instead."""
    lock_racers: int = knob_field(0, plain=0, weight=2)
    """1: an operator lets locks expire, and asks for them while the broker removes expired locks."""
    client_questions: int = knob_field(0, plain=0, weight=2)
    """1: an operator asks members of the group through the broker, and they answer."""
    settings_operators: int = knob_field(0, plain=0, weight=2)
    """1: an operator changes settings of running brokers, among them their permission."""
    has_conf: bool = knob_field(False, plain=False, weight=1)
    """Masters have a broker.conf, which keeps the changes of the settings operator over a restart."""
    route_operators: int = knob_field(0, plain=0, weight=2)
    """1: an operator removes and restores permissions to write at name servers, and deletes topics there."""
    foreign_brokers: int = knob_field(0, plain=0, weight=2)
    """1: brokers of other clusters register with the name servers. They are programs without messages."""
    key_operators: int = knob_field(0, plain=0, weight=2)
    """1: an operator sets and deletes keys at name servers, among them those of ordered topics."""
    slave_absence_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per slave and life, that the slave stays off. An absence in the first life adds the slave late."""
    slave_death_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per slave and life, that the slave dies during the life, in addition to the life's own end."""
    slave_disk_loss_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per restart of a slave, that the slave gets an empty disk."""
    slave_disk_reuse_chance: float = knob_field(0.0, plain=0.0, weight=2)
    """The chance, per empty disk of a slave, that the disk has the tables of a broker of another cluster."""
    slaves_know_master: bool = knob_field(False, plain=False, weight=1)
    """Slaves have a masterAddr, from which they copy tables. Without, they take it from name servers."""
    slaves_know_ha_address: bool = knob_field(False, plain=False, weight=1)
    """Slaves have a haMasterAddress, from which they copy the log. Without, they take it from name servers."""
    slaves_avoid_master: bool = knob_field(False, plain=False, weight=1)
    """Slaves register only at name servers of other processes than their master's, if there are any.

    Without other name servers they register nowhere if they have both addresses, else at their master's.
    """
    slave_takes_over: bool = knob_field(False, plain=False, weight=3)
    """The first master is lost at the end of the run and a slave restarts as master."""
    slave_lags: bool = knob_field(False, plain=False, weight=3)
    """Until the slave restarts as master, it has copied tables but no log, because its haMasterAddress was wrong.

    Messages that only the lost master had are lost. Needs one slave and an asynchronous master.
    """
    master_returns: bool = knob_field(False, plain=False, weight=3)
    """After a slave has replaced the lost master, this master restarts as a slave. Needs an asynchronous master."""
    pending_requests_max: int = knob_field(16, plain=16)
    """The number of small pending requests of a connection at which a broker stops reading from it."""
    queued_requests_max: int = knob_field(10_000, plain=10_000)
    """The number of sends or pulls that may wait for a task. A broker refuses further ones at once."""
    output_pause_bytes: int = knob_field(262_144, plain=262_144)
    """The bytes of unread answers at which a broker stops reading from a client."""
    idle_ms_max: int = knob_field(120_000, plain=120_000)
    """The time without traffic after which a broker closes a connection."""
    operator_connections: int = knob_field(0, plain=0, weight=2)
    """Number of further connections that an operator opens at a time. They end while groups come and go."""

    @property
    def slaves_are_set_up(self) -> bool:
        """Whether the settings of slaves depend on their master, so that an operator changes them for a new master."""
        return self.slaves_know_master or self.slaves_know_ha_address or self.slaves_avoid_master

    @property
    def tasks_of_host_max(self) -> int:
        """The most tasks for one host, in pools with such a limit: half of them, as in the default settings."""
        return max(self.tasks_each // 2, 1)


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Consumers that fail to process messages again and again, and their group."""

    failing_consumers: int = knob_field(0, plain=0, weight=4)
    """Number of consumers. They share the queues, and process each message in vain until a retry succeeds."""
    fail_chance: float = knob_field(1.0)
    """The chance that a consumer sends a message back, per delivery."""
    retries_max: int = knob_field(16)
    """The maximum of the consumers, or of their group if they are too old to send one. A group allows one more than
    its consumers do."""
    retry_queues: int = knob_field(1, plain=1)
    """retryQueueNums of the group."""
    old_clients: bool = knob_field(False, plain=False)
    """Consumers are older than RocketMQ 3.4.9, so only the setting of the group limits retries."""
    own_send_chance: float = knob_field(0.0, plain=0.0, weight=1)
    """The chance that a consumer sends a message to the retry topic itself, with the number of retries. RocketMQ's
    clients do so after a failed request, and orderly consumers always, with the maximum as number.
    """

    @property
    def retries_max_of_group(self) -> int:
        return self.retries_max + (not self.old_clients)


@dataclass(frozen=True, slots=True)
class AccessPlan:
    """Accounts of clients. By default a broker has no access control."""

    clients: int = knob_field(0, plain=0, weight=3)
    """1: a client sends requests of several accounts. All other clients have one account, without signatures."""
    edited_by_hand: bool = knob_field(False, plain=False, weight=1)
    """An operator of the broker's machine edits, damages and repairs the file with the accounts."""


@dataclass(frozen=True, slots=True)
class BrokerSettingsPlan:
    """Settings of brokers, by their names in `BrokerConfig`. The ranges of broker scenarios name more options."""

    auto_create_topic_enable: bool = knob_field(True, plain=True)
    """Without it, each master creates the topics of users when it starts."""
    auto_create_subscription_group: bool = knob_field(True, plain=True)
    """Without it, each master creates the groups of users when it starts."""
    short_polling_time_ms: int = knob_field(1_000, plain=1_000)
    notify_consumer_ids_changed_enable: bool = knob_field(True, plain=True)
    enable_calc_filter_bit_map: bool = knob_field(False, plain=False)
    """Has an effect only with `settings.enable_consume_queue_ext`."""
    flush_consumer_offset_interval_ms: int = knob_field(1_000, plain=1_000)
    held_pulls_max: int = knob_field(100_000, plain=100_000)
    held_pulls_of_client_max: int = knob_field(10_000, plain=10_000)
    region_id: str = knob_field("DefaultRegion", plain="DefaultRegion")
    trace_on: bool = knob_field(True, plain=True)
    accepts_sends_after_ms: int = knob_field(0, plain=0)
    """startAcceptSendRequestTimeStamp, in ms after the start of the run."""
    reject_transaction_message: bool = knob_field(False, plain=False)
    transaction_timeout_ms: int = knob_field(1_000, plain=1_000)
    """The age at which a broker first asks a producer about a half message."""
    transaction_check_interval_ms: int = knob_field(1_000, plain=1_000)
    transaction_check_max: int = knob_field(15, plain=15)
    validate_system_topic_when_update_topic: bool = knob_field(True, plain=True)
    store_reply_message_enable: bool = knob_field(True, plain=True)

    @property
    def decided_ms(self) -> int:
        """The time limit for a half message to be decided or given up."""
        return (self.transaction_check_max + 5) * max(self.transaction_timeout_ms, self.transaction_check_interval_ms)
