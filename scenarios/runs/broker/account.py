"""Broker account: the oracle's data about one broker and the slave that replaces it.

The account has the ledger, the consumer group's progress, and the earliest answers to pulls.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...oracle import guarantees
from ...oracle.access_rules import AccessModel
from ...oracle.client_questions import ClientQuestions
from ...oracle.group_commits import Group
from ...oracle.group_delivery import GroupDelivery, user_places
from ...oracle.group_members import GroupMembers
from ...oracle.ledger import Ledger
from ...oracle.light_places import LIGHT_PREFIX
from ...oracle.operator_tables import OperatorTables
from ...oracle.pull_answers import PullAnswers
from ...oracle.pull_times import PullTimes
from ...oracle.put_entry import PutEntry
from ...oracle.queue_locks import QueueLocks
from ...oracle.recovered import RecoveredStore
from .message_options import EVERYTHING, Subscription, message_name_of
from .watched_copies import CommittedOffsets


@dataclass(slots=True)
class BrokerAccount:
    """Invariant: all parts record each start, stop and crash together."""

    ledger: Ledger
    sync_flush: bool
    subscription: Subscription = EVERYTHING
    pull_times: PullTimes = field(default_factory=PullTimes)
    has_steady_clock: bool = True
    """Whether no clock steps, so that no message may be delivered before its time."""
    settings_at_start: Mapping[str, str] = field(default_factory=dict)
    """Key -> text of settings that operators may change until the broker stops."""
    keeps_settings: bool = False
    """Whether changes of the settings operator survive a restart."""
    hits: Counter[str] = field(default_factory=Counter)
    """Counts for `runs.marks`, shared by all brokers of a run."""
    group: GroupDelivery = field(default_factory=GroupDelivery)
    locks: QueueLocks = field(default_factory=QueueLocks)
    """The locks of the group of members."""
    locks_of_operators: QueueLocks = field(default_factory=QueueLocks)
    access: AccessModel | None = None
    """The accounts of clients, None without access control."""
    tables: OperatorTables = field(default_factory=OperatorTables)
    members: GroupMembers = field(default_factory=GroupMembers)
    questions: ClientQuestions = field(default_factory=ClientQuestions)
    commits: CommittedOffsets = field(default_factory=CommittedOffsets)
    handled_to: dict[Group, int] = field(default_factory=dict)
    """The offset to which members have processed a queue, as committed or answered since the broker's last start."""
    pulls: PullAnswers = field(init=False)

    def __post_init__(self) -> None:
        self.pulls = PullAnswers(self.ledger)
        self._restart_settings(0)

    def _restart_settings(self, now_ns: int) -> None:
        self.tables.settings.restart({key: (text,) for key, text in self.settings_at_start.items()}, now_ns)

    def is_readable_now(self, put: PutEntry) -> bool:
        """Return whether consumers can read a just answered put, which is not delayed."""
        return put.wait or not self.sync_flush

    def note_stop(self, now_ns: int, *, keeps_progress: bool = True) -> None:
        guarantees.note_stop(self.ledger)
        self.ledger.commits.note_stop(is_kept=keeps_progress)
        self.ledger.progress_is_final = keeps_progress and self.ledger.delay_progress.is_persisted
        self._end_life(now_ns)

    def note_crash(self, persisted_within_ms: int | None, died_ns: int) -> None:
        """Record a crash, after the ledger has recorded it."""
        self.ledger.commits.note_crash(persisted_within_ms, died_ns)
        self.ledger.progress_is_final = False
        self._end_life(died_ns)

    def _end_life(self, now_ns: int) -> None:
        if not self.ledger.progress_is_final:
            self.ledger.transactions.record_lost_progress()
        self.ledger.begin_life()
        self.ledger.commits.end_life()
        self.pull_times.begin_life()
        self.pulls.begin_life()
        self.locks.begin_life()
        self.locks_of_operators.begin_life()
        self.members.begin_life()
        self.questions.begin_life()
        if not self.keeps_settings:
            self._restart_settings(now_ns)
        self.handled_to.clear()

    def note_recovery(self, found: RecoveredStore) -> None:
        places = dict(user_places(found.records))
        ends = {queue: one.max_offset for queue, one in found.queues.items()} if self.ledger.expired_to else {}
        ends = self.group.note_recovery(self.ledger.life, places, ends)
        ends |= {queue: one.max_offset for queue, one in found.queues.items() if queue[0].startswith(LIGHT_PREFIX)}
        self.ledger.commits.lower_to_ends(ends)
        self.pulls.note_recovery(ends)
        puts = (self.ledger.put_seen_in(one.record) for one in places.values())
        copies = Counter(message_name_of(put.name) for put in puts if put is not None)
        self.hits["message stored twice"] += any(count > 1 for count in copies.values())
