"""Put wait: a put that is in the log, and whose answer waits for a sync, for a slave, or for both.

A task that puts waits in `wait`. Who has more to do than to wait is called when there may be something to know, and
looks; `due_ns` says when that is worth it although nobody calls.
"""

from collections.abc import Callable

from ..formats.messages import AppendMessageResult, PutMessageResult, PutMessageStatus
from .flush import GroupCommitRequest
from .group_transfer import GroupTransfer, GroupTransferRequest


class PutWait:
    """One put; both waits began with it. For one task at a time. Invariant: its answer becomes known once."""

    __slots__ = ("_flush", "_on_answered", "_slaves", "_transfer", "append")

    def __init__(
        self,
        append: AppendMessageResult,
        flush: GroupCommitRequest | None,
        slaves: GroupTransfer | None,
        transfer: GroupTransferRequest | None,
    ) -> None:
        """flush, transfer: what it waits for; slaves: who has that transfer to answer."""
        assert transfer is None or slaves is not None, "who asks for a slave asks somebody"
        self.append = append
        self._flush = flush
        self._slaves = slaves
        self._transfer = transfer
        self._on_answered: Callable[[], None] | None = None

    def then(self, on_answered: Callable[[], None]) -> None:
        """Have a function called in the moment the answer becomes known to the task that asks for it."""
        self._on_answered = on_answered

    def wait(self) -> PutMessageResult:
        """Wait for the answer, which comes within the time-outs of settings."""
        flushed = replicated = PutMessageStatus.PUT_OK
        if self._flush is not None:
            flushed = self._flush.wait()
        if self._slaves is not None and self._transfer is not None:
            replicated = self._slaves.wait(self._transfer)
        return self._answered(flushed, replicated)

    def look(self, now_ns: int) -> PutMessageResult | None:
        """Return the answer without waiting; None if it is not known yet. What is known by now is not asked again."""
        flushed = replicated = PutMessageStatus.PUT_OK
        if self._flush is not None:
            found = self._flush.look(now_ns)
            if found is None:
                return None
            flushed = found
        if self._slaves is not None and self._transfer is not None:
            found = self._slaves.look(self._transfer, now_ns)
            if found is None:
                return None
            replicated = found
        return self._answered(flushed, replicated)

    def due_ns(self, now_ns: int) -> int:
        """Return the moment at which the time is over of what it waits for now; now, if that is nothing."""
        for request in (self._flush, self._transfer):
            if request is not None and request.look(now_ns) is None:
                return request.due_ns
        return now_ns

    def _answered(self, flushed: PutMessageStatus, replicated: PutMessageStatus) -> PutMessageResult:
        """Answer: what the slave has to say counts more than what the disk has."""
        if self._on_answered is not None:
            self._on_answered()
        status = flushed if replicated is PutMessageStatus.PUT_OK else replicated
        return PutMessageResult(status, self.append)


def answer_of(put: PutMessageResult | PutWait) -> PutMessageResult:
    """Return a put's answer, waiting for it if need be."""
    return put.wait() if isinstance(put, PutWait) else put
