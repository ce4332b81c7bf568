"""Has a slave know what its master knows beside the log: topics, groups, progress of consumers and of delayed delivery.

All of it is asked for 3 s after the start and then every 10 s. What cannot be had, or is no such thing, leaves what is
known as it is.
Source: RocketMQ SlaveSynchronize, BrokerController.handleSlaveSynchronize.
"""

from ..delivery.schedule import decoded_offsets
from ..errors import StoreError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.json_body import decode_json_body
from ..service import Service
from .parts import BrokerParts
from .remoting_client import RemotingClient
from .requests import RequestCode, ResponseCode
from .responses import BROKER_VERSION

FIRST_MS = 3_000
INTERVAL_MS = 10_000
TIMEOUT_MS = 3_000


class SlaveSynchronize(Service):
    """One task of a slave."""

    name = "slave synchronize"

    def __init__(self, parts: BrokerParts) -> None:
        super().__init__(parts.world)
        self.master_address = parts.config.master_addr
        """Where the master's clients reach it, as `host:port`; empty: nobody is asked."""
        self.synchronized = 0
        """How often all of it was had."""
        self.last_error: Exception | None = None
        """Why that failed the last time, None if it did not."""
        self._parts = parts
        self._wait_ms = FIRST_MS
        self._client: RemotingClient | None = None

    def update_master_address(self, address: str) -> None:
        """Ask another master from now on."""
        self.master_address = address

    def step(self) -> None:
        """Wait, then ask for everything."""
        self.pause(self._wait_ms)
        self._wait_ms = INTERVAL_MS
        if not self.is_stopping and self.master_address:
            try:
                self.synchronize()
                self.last_error = None
            except (OSError, StoreError, ValueError) as error:  # ValueError: an address that is none
                self.last_error = error

    def finish(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()

    def synchronize(self) -> None:
        """Take over what the master has. OSError if it does not answer, StoreError if it says something else."""
        parts = self._parts
        parts.topics.replace(decode_json_body(self._asked(RequestCode.GET_ALL_TOPIC_CONFIG)))
        parts.offsets.replace(self._asked(RequestCode.GET_ALL_CONSUMER_OFFSET), self.master_address)
        parts.offsets.persist()
        delays = decoded_offsets(self._asked(RequestCode.GET_ALL_DELAY_OFFSET), self.master_address)
        parts.own_store.schedule.take_over(delays)
        groups = decode_json_body(self._asked(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        parts.groups.replace(groups)
        self.synchronized += 1

    def _asked(self, code: RequestCode) -> bytes:
        """Return the body of the master's answer."""
        client = self._client
        if client is None or client.address != self.master_address:
            if client is not None:
                client.close()
            client = self._client = RemotingClient(self.world, self.master_address)
        response = client.invoke(RemotingCommand(code, 0, version=BROKER_VERSION), TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            raise StoreError(f"{self.master_address}: {code.name}: {response.code} {response.remark}")
        return response.body
