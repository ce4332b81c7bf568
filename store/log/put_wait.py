"""Put wait: a put that is in the log, but not yet synced or replicated.

A task that may block calls `wait`. An event loop calls `poll` after the on_known callback or at `due_ns`.
"""

from collections.abc import Callable

from ..formats.messages import PUT_OK, AppendMessageResult, PutMessageResult, PutMessageStatus
from .flush import GroupCommitRequest
from .group_transfer import GroupTransfer, GroupTransferRequest


class PutWait:
    """One pending put. Only one task at a time may use it. Invariant: the put gets one result."""

    __slots__ = ("_flush", "_on_answered", "_slaves", "_transfer", "append")

    def __init__(
        self,
        append: AppendMessageResult,
        flush: GroupCommitRequest | None,
        slaves: GroupTransfer | None,
        transfer: GroupTransferRequest | None,
    ) -> None:
        assert transfer is None or slaves is not None, "a transfer request needs its GroupTransfer"
        self.append = append
        self._flush = flush
        self._slaves = slaves
        self._transfer = transfer
        self._on_answered: Callable[[], None] | None = None

    def call_when_answered(self, on_answered: Callable[[], None]) -> None:
        self._on_answered = on_answered

    def wait(self) -> PutMessageResult:
        flushed = replicated = PUT_OK
        if self._flush is not None:
            flushed = self._flush.wait()
        if self._slaves is not None and self._transfer is not None:
            replicated = self._slaves.wait(self._transfer)
        return self._combined_result(flushed, replicated)

    def poll(self, now_ns: int) -> PutMessageResult | None:
        flushed = replicated = PUT_OK
        if self._flush is not None:
            found = self._flush.poll(now_ns)
            if found is None:
                return None
            flushed = found
        if self._slaves is not None and self._transfer is not None:
            found = self._slaves.poll(self._transfer, now_ns)
            if found is None:
                return None
            replicated = found
        return self._combined_result(flushed, replicated)

    def due_ns(self, now_ns: int) -> int:
        """Return the deadline of the first pending request; now_ns if no request is pending."""
        for request in (self._flush, self._transfer):
            if request is not None and request.poll(now_ns) is None:
                return request.due_ns
        return now_ns

    def _combined_result(self, flushed: PutMessageStatus, replicated: PutMessageStatus) -> PutMessageResult:
        """Combine both statuses. If both failed, the result has the replication status."""
        if self._on_answered is not None:
            self._on_answered()
        status = flushed if replicated is PUT_OK else replicated
        return PutMessageResult(status, self.append)


def wait_for_answer(put: PutMessageResult | PutWait) -> PutMessageResult:
    return put.wait() if isinstance(put, PutWait) else put
