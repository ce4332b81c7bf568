"""Tells whoever waits for messages that one has arrived: RocketMQ's MessageArrivingListener, which ends held pulls.

A listener runs in the dispatch task, after the message can be pulled and before the next one is dispatched, so it must
be quick. One that raises is noted and changes nothing for the others, nor for dispatch.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .config import BrokerRole, StoreConfig
from .formats.delay_level import record_tags_code
from .formats.properties import decode_properties
from .formats.scan import ScannedRecord
from .queues.dispatch import ArrivingListener
from .queues.light_queues import light_records


class MessageArrival(NamedTuple):
    """One message that can be pulled from now on."""

    topic: str
    queue_id: int
    next_offset: int
    """The queue offset behind it."""
    tags_code: int
    store_timestamp_ms: int
    properties: Mapping[str, str]


MessageArrivingListener = Callable[[MessageArrival], None]


class ArrivalNotifier:
    """The listeners of one store. Dispatch knows of them only while there are any."""

    def __init__(
        self, config: StoreConfig, on_arriving: list[ArrivingListener], delays_ms: Mapping[int, int]
    ) -> None:
        """Begin without a listener; on_arriving is what dispatch calls."""
        self.last_error: Exception | None = None
        """What a listener raised last."""
        self._config = config
        self._on_arriving = on_arriving
        self._delays_ms = delays_ms
        self._listeners: tuple[MessageArrivingListener, ...] = ()

    def append(self, listener: MessageArrivingListener) -> None:
        """Tell a listener of every message from now on. A slave tells no one, nor does a store without long polling."""
        config = self._config
        if config.broker_role is BrokerRole.SLAVE or not config.long_polling_enable:
            return
        if not self._listeners:
            self._on_arriving.append(self.notify)
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: MessageArrivingListener) -> None:
        """Tell a listener no more. ValueError if it was not told."""
        listeners = list(self._listeners)
        listeners.remove(listener)
        self._listeners = tuple(listeners)
        if not listeners:
            self._on_arriving.remove(self.notify)

    def notify(self, record: ScannedRecord) -> None:
        """Tell every listener of one record, in its own queue and in the others it names."""
        properties = decode_properties(record.properties.decode(errors="surrogateescape"))
        arrival = MessageArrival(
            record.topic,
            record.queue_id,
            record.queue_offset + 1,
            record_tags_code(record, self._delays_ms),
            record.store_timestamp_ms,
            properties,
        )
        arrivals = [arrival]
        if self._config.enable_multi_dispatch:
            arrivals += [
                arrival._replace(topic=seen.topic, queue_id=seen.queue_id, next_offset=seen.queue_offset + 1)
                for seen in light_records(record, lmq=self._config.enable_lmq)
            ]
        for each in arrivals:
            for listener in self._listeners:
                try:
                    listener(each)
                except Exception as error:  # its own matter: the message is there all the same
                    self.last_error = error
