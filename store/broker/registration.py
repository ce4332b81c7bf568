"""Tells name servers of this broker, if settings name some: every so often, when its topics change, and when it goes.

The answer to a slave says who its master is.
Source: RocketMQ BrokerOuterAPI.registerBrokerAll, BrokerController.
"""

import zlib
from collections.abc import Callable

from ..errors import StoreError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.json_body import encode_json_body
from ..service import Service
from .parts import BrokerParts
from .remoting_client import RemotingClient
from .requests import RequestCode, ResponseCode
from .responses import BROKER_VERSION

TIMEOUT_MS = 6_000
APART_MS = 100
"""Between two times at least: topics that are made meanwhile are told of together."""


class BrokerRegistration(Service):
    """One task. on_master: told of the master's address for clients, and for its slaves' copies of the log."""

    name = "broker registration"

    def __init__(
        self, parts: BrokerParts, ha_address: Callable[[], str], on_master: Callable[[str, str], None]
    ) -> None:
        super().__init__(parts.world)
        self.registered = 0
        """How often a name server has taken note."""
        self.last_error: Exception | None = None
        """Why one has not, the last time; None if all have."""
        self._parts = parts
        self._ha_address = ha_address
        self._on_master = on_master
        self._clients = [RemotingClient(parts.world, address) for address in parts.config.name_servers]
        parts.topics.on_changed = self.wake

    def step(self) -> None:
        """Register everywhere, then wait until topics change or it is time again."""
        self.last_error = None
        version = self._parts.topics.version
        for client in self._clients:
            try:
                self._register(client)
            except (
                OSError,
                StoreError,
                ValueError,
            ) as error:  # ValueError: more topics than a frame can hold, or an address that is none
                self.last_error = error
        self.pause(APART_MS)
        if not self.is_stopping and self._parts.topics.version == version:
            self.signal.wait(self._parts.config.register_name_server_period_ms - APART_MS)

    def finish(self) -> None:
        """Take leave of those that answer."""
        fields = self._fields()
        for client in self._clients:
            try:
                self._ask(client, RequestCode.UNREGISTER_BROKER, fields, b"")
            except (OSError, StoreError, ValueError) as error:
                self.last_error = error
            client.close()

    def _register(self, client: RemotingClient) -> None:
        body = encode_json_body(
            {"filterServerList": [], "topicConfigSerializeWrapper": self._parts.topics.members}
        )
        fields = {
            **self._fields(),
            "haServerAddr": self._ha_address(),
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        }
        answer = self._ask(client, RequestCode.REGISTER_BROKER, fields, body)
        self.registered += 1
        master = answer.ext_fields.get("masterAddr", "")
        if self._parts.is_slave and master:
            self._on_master(master, answer.ext_fields.get("haServerAddr", ""))

    def _fields(self) -> dict[str, str]:
        config = self._parts.config
        return {
            "brokerAddr": config.address,
            "brokerId": str(config.broker_id),
            "brokerName": config.broker_name,
            "clusterName": config.broker_cluster_name,
        }

    def _ask(
        self, client: RemotingClient, code: RequestCode, fields: dict[str, str], body: bytes
    ) -> RemotingCommand:
        request = RemotingCommand(code, 0, version=BROKER_VERSION, ext_fields=fields, body=body)
        answer = client.invoke(request, TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise StoreError(f"{client.address}: {code.name}: {answer.code} {answer.remark}")
        return answer
