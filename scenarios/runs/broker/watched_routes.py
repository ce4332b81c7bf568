"""Watched routes: checks the routes in a name server's answers against the registrations that it has executed."""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from ....store.broker.requests import RequestCode, RequestRefusedError, ResponseCode
from ....store.broker.router import Channel, Processor, Response
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.evidence import Violation
from ...oracle.invariants.routes import Identity
from ...oracle.registrations import Key, Registration, Registrations

Process = Callable[[Processor, RemotingCommand, Channel], Response]


class WatchedRoutes:
    """The registrations at one name server since its start, and its answers about routes.

    process: executes a request. report: takes violations in a task of a processor.
    """

    def __init__(self, process: Process, now_ns: Callable[[], int], report: Callable[[list[Violation]], None]) -> None:
        self._process = process
        self._now_ns = now_ns
        self._report = report
        self._registrations = Registrations()
        self.judges: dict[int, Process] = {
            RequestCode.REGISTER_BROKER: partial(self._process_change, registers=True),
            RequestCode.UNREGISTER_BROKER: partial(self._process_change, registers=False),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._process_route,
        }

    def _process_change(
        self, processor: Processor, request: RemotingCommand, channel: Channel, *, registers: bool
    ) -> Response:
        fields, registration, begin_ns = request.ext_fields, None, self._now_ns()
        broker = fields["brokerName"], int(fields["brokerId"])
        self._registrations.begin_request(broker)
        try:
            response = self._process(processor, request, channel)
            if registers and isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS:
                topics = msgspec.json.decode(request.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
                registration = Registration(channel, fields["brokerAddr"], frozenset(topics), begin_ns)
        finally:
            self._registrations.end_request(broker, registration)
        return response

    def _process_route(self, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        expected = self._registrations.listed_brokers(request.ext_fields["topic"], self._now_ns())
        try:
            response = self._process(processor, request, channel)
        except RequestRefusedError:  # no broker has the topic
            self._check(expected, set())
            raise
        if isinstance(response, RemotingCommand) and response.code == ResponseCode.SUCCESS:
            self._check(expected, identities_of_route(response.body))
        return response

    def _check(self, expected: Mapping[Key, Registration], found: set[Identity]) -> None:
        if violations := list(self._registrations.check_route(expected, found)):
            self._report(violations)


def identities_of_route(body: bytes) -> set[Identity]:
    """Return name, id and address of each broker in a route."""
    datas = msgspec.json.decode(body)["brokerDatas"]
    return {(each["brokerName"], int(key), at) for each in datas for key, at in each["brokerAddrs"].items()}
