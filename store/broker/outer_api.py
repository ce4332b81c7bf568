"""Outer API: registers a broker with name servers, and copies a master's state.

A broker registers with each configured name server periodically and when its topics change, and unregisters when it
stops. The response to a slave contains the master's address. A slave copies topics, groups, consumer offsets and delay
offsets from its master, 3 s after the start and then every 10 s. After an error response or a malformed one, the slave
keeps its state. Source: RocketMQ BrokerOuterAPI.registerBrokerAll, BrokerController.handleSlaveSynchronize,
SlaveSynchronize.
"""

import zlib
from collections.abc import Callable, Mapping

from ..delivery.schedule import decoded_offsets
from ..errors import StoreError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.json_body import decode_json_body, encode_json_body
from ..service import Service
from .operator_log import Emit, warning_line
from .parts import BrokerParts
from .remoting_client import RemotingClient
from .requests import BROKER_VERSION, RequestCode, ResponseCode

REGISTER_TIMEOUT_MS = 6_000
APART_MS = 100
"""Minimum interval between registrations, so that one registration can contain several new topics."""

FIRST_MS = 3_000  # FIRST_MS and INTERVAL_MS: RocketMQ BrokerController.handleSlaveSynchronize
INTERVAL_MS = 10_000
SYNCHRONIZE_TIMEOUT_MS = 3_000

_FAILURES = (OSError, StoreError, ValueError)
"""Errors of a call. ValueError: an invalid address, or topics that do not fit a frame."""


def _invoke_or_raise(
    client: RemotingClient,
    code: RequestCode,
    timeout_ms: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Raises StoreError unless the response has the code SUCCESS."""
    request = RemotingCommand(code, 0, version=BROKER_VERSION, ext_fields=fields or {}, body=body)
    answer = client.invoke(request, timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise StoreError(f"{client.address}: {code.name}: {answer.code} {answer.remark}")
    return answer


class BrokerRegistration(Service):
    """Registers a broker with a name server."""

    def __init__(
        self, parts: BrokerParts, address: str, ha_address: Callable[[], str], on_master: Callable[[str, str], None]
    ) -> None:
        self.name = f"broker registration at {address}"
        super().__init__(parts.world)
        self.address = address
        self.registered = 0
        self.last_error: Exception | None = None
        self._parts = parts
        self._ha_address = ha_address
        self.emit: Emit = lambda line: None
        """Logs the first of consecutive failures, and the next success."""
        self.on_master = on_master
        """Called with the master's address for clients, and its HA address, if the answer to a slave has them."""
        self._client = RemotingClient(parts.world, address)
        self._is_due = False
        """Whether topics have changed since the last registration began."""

    def wake(self) -> None:
        self._is_due = True  # the pause after a registration clears the signal
        super().wake()

    def run_once(self) -> None:
        self._is_due = False
        try:
            self._register_broker(self._client)
            if self.last_error is not None:
                self.emit(f"name server {self.address}: registered again")
            self.last_error = None
        except _FAILURES as error:
            if self.last_error is None:
                self.emit(warning_line(f"name server {self.address}: cannot register, will retry: {error}"))
            self.last_error = error
        self.pause(APART_MS)
        if not self.is_stopping and not self._is_due:
            self.signal.wait(self._parts.config.register_name_server_period_ms - APART_MS)

    def finish_remaining_work(self) -> None:
        try:
            _invoke_or_raise(
                self._client, RequestCode.UNREGISTER_BROKER, REGISTER_TIMEOUT_MS, self._registration_fields()
            )
        except _FAILURES as error:
            self.last_error = error
        self._client.close()

    def _register_broker(self, client: RemotingClient) -> None:
        topics = self._parts.topics.permitted_json_members(self._parts.config.broker_permission)
        body = encode_json_body({"filterServerList": [], "topicConfigSerializeWrapper": topics})
        fields = {
            **self._registration_fields(),
            "haServerAddr": self._ha_address(),
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        }
        answer = _invoke_or_raise(client, RequestCode.REGISTER_BROKER, REGISTER_TIMEOUT_MS, fields, body)
        self.registered += 1
        if answer.body:
            ordered = decode_json_body(answer.body).inner_object("table")
            self._parts.topics.mark_ordered(lambda: ordered.names)
        master = answer.ext_fields.get("masterAddr", "")
        if self._parts.is_slave and master:
            self.on_master(master, answer.ext_fields.get("haServerAddr", ""))

    def _registration_fields(self) -> dict[str, str]:
        config = self._parts.config
        return {
            "brokerAddr": config.address,
            "brokerId": str(config.broker_id),
            "brokerName": config.broker_name,
            "clusterName": config.broker_cluster_name,
        }


class SlaveSynchronize(Service):
    """Copies the master's state to a slave."""

    name = "slave synchronize"

    def __init__(self, parts: BrokerParts) -> None:
        super().__init__(parts.world)
        self.master_address = parts.config.master_addr
        """`host:port`, or empty without a known master."""
        self.synchronized = 0
        self.last_error: Exception | None = None
        self._parts = parts
        self._wait_ms = FIRST_MS
        self._client: RemotingClient | None = None

    def update_master_address(self, address: str) -> None:
        self.master_address = address

    def run_once(self) -> None:
        self.pause(self._wait_ms)
        self._wait_ms = INTERVAL_MS
        if not self.is_stopping and self.master_address:
            try:
                self.synchronize()
                self.last_error = None
            except _FAILURES as error:
                self.last_error = error

    def finish_remaining_work(self) -> None:
        if self._client is not None:
            self._client.close()

    def synchronize(self) -> None:
        """Raises OSError if no response arrives, StoreError for an error response."""
        parts = self._parts
        parts.topics.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_TOPIC_CONFIG)))
        parts.offsets.replace(self._request_body_from_master(RequestCode.GET_ALL_CONSUMER_OFFSET), self.master_address)
        parts.offsets.persist()  # consumers continue from these offsets after a crash of the master
        delays = decoded_offsets(self._request_body_from_master(RequestCode.GET_ALL_DELAY_OFFSET), self.master_address)
        parts.own_store.schedule.take_over(delays)
        parts.groups.replace(
            decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        )
        self.synchronized += 1

    def _request_body_from_master(self, code: RequestCode) -> bytes:
        client = self._client
        if client is None or client.address != self.master_address:
            if client is not None:
                client.close()
            client = self._client = RemotingClient(self.world, self.master_address)
        return _invoke_or_raise(client, code, SYNCHRONIZE_TIMEOUT_MS).body
