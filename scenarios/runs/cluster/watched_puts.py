"""Watched puts: observes each result of a store's puts, at the time at which the store knows it.

A put that waits for a slave is answered by the task that sends the answer, so the result is observed in the wait.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ....store.formats.messages import Message, MessageBatch, PutMessageResult, PutMessageStatus
from ....store.log.commit_log import CommitLog
from ....store.log.put_wait import PutWait

OnResult = Callable[["WatchedPut", PutMessageResult], None]


class WatchedPut(NamedTuple):
    """A put of a broker, for its own purposes or for a client."""

    name: str
    wait: bool
    """Whether the put waits until its message is safe."""
    asked_ns: int
    answered_ns: int | None = None


class _WatchedWait(PutWait):
    __slots__ = ("_on_result",)

    def __init__(self, wait: PutWait, on_result: Callable[[PutMessageResult], None]) -> None:
        super().__init__(wait.append, wait._flush, wait._slaves, wait._transfer)
        self._on_result = on_result

    def _combined_result(self, flushed: PutMessageStatus, replicated: PutMessageStatus) -> PutMessageResult:
        result = super()._combined_result(flushed, replicated)
        self._on_result(result)
        return result


def watch_puts(log: CommitLog, now_ns: Callable[[], int], on_result: OnResult) -> None:
    """Call on_result with each put that begins from now on, and with its result."""
    begin = log.begin_put

    def watched_begin(
        message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        head = message.head if isinstance(message, MessageBatch) else message
        put = WatchedPut(f"a put to {head.topic}", head.wait_store_ok, now_ns())

        def note_result(result: PutMessageResult) -> None:
            on_result(put._replace(answered_ns=now_ns()), result)

        begun = begin(message, on_known)
        if isinstance(begun, PutWait):
            return _WatchedWait(begun, note_result)
        note_result(begun)
        return begun

    cast(Any, log).begin_put = watched_begin
