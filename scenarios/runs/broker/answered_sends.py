"""Answered sends: what a broker's processors answer to sends is judged in the moment it is answered, by its disk.

SUCCESS under SYNC_FLUSH means that the disk has all of the record by now, which a crash right behind the answer would
show, and a time-out that the time was up, or that a sync has failed. A client hears of it later, and of some never.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ....faults.disk.disk import Disk
from ....sim.kernel import Kernel
from ....store.broker.requests import ResponseCode
from ....store.broker.router import Channel, LateResponse, Pool, Processor, Response, Route, Routes
from ....store.formats.host import decode_message_id
from ....store.formats.remoting.command import RemotingCommand
from ....store.message import PutMessageResult
from ....store.message_store import MessageStore
from ...claims.plan import Plan
from ...oracle import allowances
from ...oracle.evidence import Violation, tried

_LENGTH_BYTES = 4


class AnsweredSends:
    """The sends of one life of a broker."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        store: MessageStore,
        disk: Disk,
        report: Callable[[Iterable[Violation]], None],
        expired_to: Callable[[], int],
    ) -> None:
        """expired_to: returns up to which log offset segments may be gone."""
        self._kernel = kernel
        self._store = store
        self._disk = disk
        self._report = report
        self._expired_to = expired_to
        self._is_sync = plan.sync_flush
        self._timeouts_ms: Mapping[int, int] = {
            ResponseCode.FLUSH_DISK_TIMEOUT: plan.flush.sync_timeout_ms,
            ResponseCode.FLUSH_SLAVE_TIMEOUT: plan.cluster.slave_timeout_ms,
        }

    def watched(self, routes: Routes) -> Routes:
        """Return routes whose answers to sends are judged as they are made."""
        return {
            code: Route(route.pool, self._watched(route.processor)) if route.pool is Pool.SEND_MESSAGE else route
            for code, route in routes.items()
        }

    def _watched(self, processor: Processor) -> Processor:
        def process(request: RemotingCommand, channel: Channel) -> Response:
            asked_ns = self._kernel.now_ns
            response = processor(request, channel)
            if not isinstance(response, LateResponse):
                if response is not None:
                    self._judge(response, asked_ns)
                return response
            respond = response.respond

            def judged(put: PutMessageResult) -> RemotingCommand:
                answer = respond(put)
                self._judge(answer, asked_ns)
                return answer

            response.respond = judged
            return response

        return process

    def _judge(self, answer: RemotingCommand, asked_ns: int) -> None:
        with self._kernel.at_one_moment():
            found = list(self._lies(answer, (self._kernel.now_ns - asked_ns) // 1_000_000))
        if found:  # in a task of its own: a server answers whatever a processor raises, and goes on
            self._store.world.tasks.spawn("judge of an answer", lambda: self._report(found))

    def _lies(self, answer: RemotingCommand, waited_ms: int) -> Iterator[Violation]:
        """Yield what is untrue about an answer that is just given."""
        ids = answer.ext_fields.get("msgId")
        if ids is None:
            return  # nothing was stored
        tried("STATUS")
        if answer.code == ResponseCode.SUCCESS:
            if self._is_sync:
                yield from self._undurable(decode_message_id(each)[1] for each in ids.split(","))
        elif answer.code in self._timeouts_ms:
            timeout_ms = self._timeouts_ms[answer.code]
            is_excused = answer.code == ResponseCode.FLUSH_DISK_TIMEOUT and allowances.sync_errors(self._disk) > 0
            if waited_ms < timeout_ms and not is_excused:
                name = ResponseCode(answer.code).name
                summary = f"a send was answered {name} after {waited_ms} ms"
                yield Violation("STATUS", summary, field="time", expected=f"{timeout_ms} ms", found=f"{waited_ms} ms")

    def _undurable(self, log_offsets: Iterable[int]) -> Iterator[Violation]:
        for log_offset in log_offsets:
            if log_offset < self._expired_to():
                continue
            segment = self._store.log.find(log_offset)
            if segment is not None:
                begin = log_offset - segment.base_offset
                length = segment.file.view(begin, begin + _LENGTH_BYTES)
                if self._disk.is_durable(segment.file.path, begin, begin + int.from_bytes(length, "big")):
                    continue
            summary = "a send was answered SUCCESS before its message was durable"
            yield Violation("STATUS", summary, "commitlog", log_offset, "answer", "after the sync", "before it")
