"""Settings operator: changes the settings of running brokers, several in a row, while users send and consume.

    UPDATE_BROKER_CONFIG  GET_BROKER_CONFIG

A request changes one to three settings. Some requests also have an invalid change, so the broker must refuse them and
change no setting. Until the broker stops, each later table has each acknowledged change (META). A broker with a
broker.conf keeps the changes over a restart; others restart with the settings of the plan.
Source: RocketMQ AdminBrokerProcessor.updateBrokerConfig, Configuration.
"""

from collections.abc import Mapping, Sequence

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
from ....store.formats.remoting.command import RemotingCommand
from ...claims.machine import RESERVED_HOURS
from ...claims.plan import Plan
from ...oracle.evidence import Violation, record_tried
from ...oracle.operator_tables import BROKER_PERMISSION
from .answers import PULLED
from .broker_user import BrokerUser, UserContext
from .commands import pull_command, route_command
from .consumer import BrokerQueue
from .message_options import EVERYTHING
from .refused_requests import TRANSIENT
from .routes import BrokerAddress
from .watched_routes import registered_ms_max

SETTINGS_NET = 115
"""The last byte of the address of the settings operator."""
_PAUSES_MS = (5, 100, 1_000)
_REQUESTS_MAX, _CHANGES_MAX = 5, 3
_INVALID_CHANCE = 0.2
_OPEN = "6"
_OPTIONS: Mapping[str, Sequence[str]] = {
    BROKER_PERMISSION: (_OPEN, _OPEN, "4", "2"),
    "validateSystemTopicWhenUpdateTopic": ("true", "false"),
    "regionId": ("DefaultRegion", "region-2", "region-3"),
    "traceOn": ("true", "false"),
    "transactionCheckMax": ("15", "20"),
    "fileReservedTime": ("48", "72", "100"),
    "deleteWhen": ("04", "04;16"),
    "diskMaxUsedSpaceRatio": ("75", "80"),
    "redeleteHangedFileInterval": ("1000", "120000"),
    "haSlaveFallbehindMax": ("268435456", "200000000"),
    "defaultQueryMaxNum": ("32", "16"),
}
"""Key -> texts. Other checks do not depend on these settings, or read them from `OperatorTables`."""
_INVALID = (("fileReservedTime", "soon"), (BROKER_PERMISSION, "9"), ("listenPort", "1"), ("nobody-s", "1"))
_REFUSED = (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION)


def settings_at_start(plan: Plan) -> dict[str, str]:
    """Return the text of each setting that the settings operator changes."""
    of_broker = plan.broker_settings
    return {
        BROKER_PERMISSION: _OPEN,
        "validateSystemTopicWhenUpdateTopic": str(of_broker.validate_system_topic_when_update_topic).lower(),
        "regionId": of_broker.region_id,
        "traceOn": str(of_broker.trace_on).lower(),
        "transactionCheckMax": str(of_broker.transaction_check_max),
        "fileReservedTime": str(RESERVED_HOURS),
        "deleteWhen": "04",
        "diskMaxUsedSpaceRatio": "75",
        "defaultQueryMaxNum": "32",
        "redeleteHangedFileInterval": str(plan.settings.redelete_hanged_file_interval_ms),
        "haSlaveFallbehindMax": str(plan.settings.ha_slave_fallbehind_max),
    }


class SettingsOperator(BrokerUser):
    """Sends one request after another to random brokers. At the end it restores the permission of each broker."""

    def __init__(self, run: UserContext, queues: Sequence[BrokerQueue], name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "settings operator", SETTINGS_NET)
        self._name_servers = name_servers
        self._queues = queues
        self._closed: dict[str, None] = {}
        """Brokers that may lack a permission."""
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("change settings", self._operate)

    def _operate(self) -> None:
        stream = self.stream
        while True:
            self.world.tasks.sleep(stream.choice(_PAUSES_MS, "pause"))
            if self.insists:
                for broker in [*self._closed]:
                    self._change(broker, {BROKER_PERMISSION: _OPEN}, invalid=())
                continue
            if self.plan.broker.watches_routes:
                self._keep_permission(stream.choice(sorted(self.run.accounts), "whose permission"))
                continue
            queue = stream.choice(self._queues, "queue")
            for _ in range(stream.randint(1, _REQUESTS_MAX, "requests in a row")):
                self._change_some(queue.broker)
            self._read(queue.broker)
            self._pull(queue)

    def _keep_permission(self, broker: str) -> None:
        """Keep a permission until every name server must know it. Then ask them for a route, which `watched_routes`
        checks.
        """
        self._change(broker, {BROKER_PERMISSION: self.stream.choice(_OPTIONS[BROKER_PERMISSION], "permission")}, ())
        self.rest((registered_ms_max(self.plan) or 0) + 1)
        for name_server in self._name_servers:
            self.ask_name_server(name_server, route_command(AUTO_CREATE_TOPIC))

    def unfinished_text(self) -> str:
        return f"the permissions of {len(self._closed)} brokers" if self._closed else ""

    def _change_some(self, broker: str) -> None:
        stream, names = self.stream, [*_OPTIONS]
        keys = [stream.choice(names, "setting") for _ in range(stream.randint(1, _CHANGES_MAX, "settings"))]
        wanted = {key: stream.choice(_OPTIONS[key], key) for key in keys}
        invalid = stream.choice(_INVALID, "invalid change") if stream.chance(_INVALID_CHANCE, "invalid") else ()
        self._change(broker, wanted, invalid)

    def _change(self, broker: str, wanted: Mapping[str, str], invalid: Sequence[str]) -> None:
        """Send changes in one request, and record them. invalid: key and text of one more change, or empty."""
        table, texts = self.run.accounts[broker].tables.settings, dict(wanted)
        if invalid:
            texts[invalid[0]] = invalid[1]
        changes = {key: table.record_request(key, (text,)) for key, text in wanted.items() if texts[key] == text}
        if BROKER_PERMISSION in changes:
            self._closed[broker] = None
        body = "".join(f"{key}={text}\n" for key, text in texts.items()).encode()
        reply = self.ask(broker, RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, 0, body=body))
        if reply is None or not reply.is_of_this_life:
            for change in changes.values():
                change.is_given_up = True
            return
        record_tried("STATUS")
        self.run.accounts[broker].hits["setting changed"] += reply.is_success
        code, is_refused = ResponseCode(reply.response.code), reply.response.code in _REFUSED
        for key, change in changes.items():
            if reply.is_success:
                table.record_success(key, change, reply.answered_ns)
            else:
                table.record_refusal(key, change)
        if reply.is_success and wanted.get(BROKER_PERMISSION) == _OPEN:
            self._closed.pop(broker, None)
        if (is_refused or reply.is_success) and is_refused is not bool(invalid):
            summary = f"{'an invalid' if invalid else 'a valid'} change of settings is answered with {code.name}"
            expected = "a refusal" if invalid else "SUCCESS"
            self.run.report([Violation("STATUS", summary, "", -1, ", ".join(texts), expected, code.name)])
        assert reply.is_success or is_refused or code in TRANSIENT, reply.response
        if is_refused:
            self._read(broker)  # a later change may hide one that the refused request has made

    def _read(self, broker: str) -> None:
        reply = self.ask(broker, RemotingCommand(RequestCode.GET_BROKER_CONFIG, 0))
        if reply is None or not reply.is_success or not reply.is_of_this_life:
            return
        pairs = (line.split("=", 1) for line in reply.response.body.decode().splitlines())
        found = {key: (text,) for key, text in pairs}
        version = msgspec.json.decode(reply.response.ext_fields["version"])["counter"]
        self.run.report(self.run.accounts[broker].tables.settings.check_answer(found, version, reply.asked_ns))

    def _pull(self, queue: BrokerQueue) -> None:
        """Pull once, and check that the permission of the broker decides."""
        reply = self.ask(
            queue.broker, pull_command(*queue.queue, 0, EVERYTHING, most=1, suspend_ms=0, group="settings")
        )
        if reply is None or not reply.is_of_this_life:
            return
        is_refused, is_done = reply.response.code == ResponseCode.NO_PERMISSION, reply.response.code in PULLED
        tables = self.run.accounts[queue.broker].tables
        self.run.report(tables.check_pull(queue.topic, is_refused=is_refused, is_done=is_done, asked_ns=reply.asked_ns))
