"""Transaction log: finds the records of each transaction without the store's code."""

from dataclasses import dataclass, field

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .ledger import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, PUT_BACK, Ledger
from .reader import properties_of
from .recovered import FoundRecord, RecoveredStore
from .transactions import FoundTransaction


@dataclass(slots=True)
class TransactionLog:
    """All transactions of a log, and records of the transaction topics without a transaction."""

    by_name: dict[str, FoundTransaction] = field(default_factory=dict)
    unexplained: list[tuple[FoundRecord, str]] = field(default_factory=list)
    _halves: dict[int, FoundTransaction] = field(default_factory=dict)

    @classmethod
    def read(cls, ledger: Ledger, store: RecoveredStore) -> "TransactionLog":
        log = cls({name: FoundTransaction() for name in ledger.transactions.by_name})
        for found in store.records:
            topic = found.record.topic
            if topic == OP_TOPIC:
                log._add_op(found, has_front=store.min_offset == 0)
            elif topic in (HALF_TOPIC, GIVEN_UP_TOPIC):
                log._add_waiting(ledger, found)
            else:
                put = ledger.put_copied_by(found.record)
                if put is None or put.name not in log.by_name:
                    continue
                if put.delayed_at_commit is None or topic == SCHEDULE_TOPIC:  # otherwise a delivery of the copy
                    log.by_name[put.name].copies.append(found)
        return log

    def _add_op(self, found: FoundRecord, *, has_front: bool) -> None:
        """has_front: whether the log still has its first record."""
        text = found.body.decode(errors="replace")
        named = self._halves.get(int(text)) if text.isdecimal() else None
        if named is None:
            if not has_front and text.isdecimal():
                return  # retention has removed the half message
            self.unexplained.append((found, f"an op for {text!r}, which is not the offset of a half message"))
            return
        named.ops.append(found)
        named.decided.add(int(text))

    def _add_waiting(self, ledger: Ledger, found: FoundRecord) -> None:
        record = found.record
        put = ledger.put_named_by(record)
        if put is None or put.name not in self.by_name or put.body != found.body:
            self.unexplained.append((found, "a half message that no producer put"))
            return
        transaction = self.by_name[put.name]
        if record.topic == GIVEN_UP_TOPIC:
            transaction.given_up.append(found)
            return
        self._halves[record.queue_offset] = transaction
        first = properties_of(record.properties).get(PUT_BACK)
        if first is None:
            transaction.half = found
            return
        transaction.put_back.append(found)
        if transaction.half is not None and first != str(transaction.half.record.queue_offset):
            self.unexplained.append((found, f"a half message put back as {first}, which is the offset of another"))
