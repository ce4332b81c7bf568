"""A flipped bit of queueOffset in a record that reaches a slave: no checksum covers it.

So does one that changed on its way past TCP's checksum, and one that the master itself has so. Here it is wrong as
dispatch is handed it, and not in the log, which is then still its master's: the next load finds its place again.
"""

from collections import Counter
from functools import partial

from ....sim.choices import Stream
from ....store.formats.scan import ScannedRecord
from ....store.queues.dispatch import Dispatcher, DispatchService

KIND = "flipped bit"
_BITS = (40, 62, 63)
"""Bits of queueOffset that make it further away than any log has room for; 63 is its sign."""
_RECORDS_MAX = 8


class _FlippedBit:
    """One record of many. Each dispatcher is handed the same."""

    def __init__(self, record_number: int, bit: int, injected: Counter[str]) -> None:
        self._left = record_number
        self._mask = 1 << bit if bit < 63 else -1 << 63
        self._injected = injected
        self._struck_at = -1

    def dispatch(self, dispatcher: Dispatcher, counts: bool, record: ScannedRecord) -> None:
        """Hand a record on. counts: whether the dispatcher is the first of them."""
        if counts and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                self._struck_at = record.physical_offset
                self._injected[KIND] += 1
        if record.physical_offset == self._struck_at:
            record = record._replace(queue_offset=record.queue_offset ^ self._mask)
        dispatcher(record)


def flip_a_bit(dispatch: DispatchService, chance: float, stream: Stream, injected: Counter[str]) -> None:
    """Have, with some chance, one of the next records dispatched with a wrong queueOffset. injected counts that."""
    if not stream.chance(chance, KIND):
        return
    flipped = _FlippedBit(stream.below(_RECORDS_MAX, "records"), stream.pick(_BITS, "bit"), injected)
    dispatch.dispatchers[:] = [
        partial(flipped.dispatch, dispatcher, number == 0)
        for number, dispatcher in enumerate(dispatch.dispatchers)
    ]
