"""Dispatch by itself: a backlog in the log, and nobody who puts."""

from threading import Event
from time import perf_counter, sleep

from ...store.formats.scan import ScannedRecord
from .figure import Sample
from .messages import BATCH_MESSAGES, batch
from .workplace import Workplace

_POLL_SECONDS = 0.001


def dispatch(place: Workplace, *, keyed: bool = False) -> Sample:
    """Return messages per second that the dispatch service makes visible; keyed: and findable, one key each."""
    with place.store() as store:
        may_pass = Event()

        def gate(record: ScannedRecord) -> None:
            """Hold the first record, and with it all others, until the backlog is there."""
            may_pass.wait()
            store.dispatchers.remove(gate)  # it is the last one, so dispatch skips none by this

        store.dispatchers.append(gate)
        try:
            batches = 0
            while store.dispatch_behind_bytes < place.settings.small_log_bytes:
                store.put_messages(batch(1024, batches, keyed=keyed))
                batches += 1
        finally:
            began = perf_counter()
            may_pass.set()
        while store.dispatch_behind_bytes:
            sleep(_POLL_SECONDS)
        return Sample(batches * BATCH_MESSAGES / (perf_counter() - began))
