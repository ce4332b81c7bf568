"""Route watcher: asks every name server for its brokers, and compares them with the brokers that run."""

from collections.abc import Callable, Mapping

from ....store.broker.outer_api import REGISTER_TIMEOUT_MS
from ....store.broker.requests import ResponseCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
from ...oracle.invariants import live, routes
from ...oracle.invariants.routes import Presence, RouteBounds
from .broker_settings import name_servers_of
from .broker_user import ANSWER_MS, BrokerUser, UserContext
from .commands import route_command
from .routes import BrokerAddress
from .watched_routes import identities_of_route

WATCHERS_NET = 120
"""The last byte of the address of the watcher."""
_PAUSES_MS = (2_000, 5_000, 10_000)


class RouteWatcher(BrokerUser):
    """Asks one name server after another for the route of the topic that every broker has."""

    def __init__(
        self, run: UserContext, presences: Callable[[], Mapping[BrokerAddress, Presence]], register_ms: int
    ) -> None:
        """register_ms: the interval of registrations."""
        super().__init__(run, "route-watcher", WATCHERS_NET)
        self._presences = presences
        late_ms = live.delivery_of_request_ms_max(run.plan)
        others = len(presences())
        self._registered: dict[tuple[BrokerAddress, int | None], dict[str, int]] = {}
        """Name server and its start -> broker -> the broker's start, if an answer since then has listed the broker."""
        self._bounds = RouteBounds(2 * register_ms + others * REGISTER_TIMEOUT_MS + late_ms, late_ms)
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("watch routes", self._watch)

    def _watch(self) -> None:
        while True:
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            self._ask_name_server(self.stream.choice(sorted(self._presences()), "name server"))

    def _ask_name_server(self, name_server: BrokerAddress) -> None:
        asked_ns, earlier = self.now_ns, self._presences()
        try:
            response, _ = self.routes.send_request(name_server, route_command(AUTO_CREATE_TOPIC), ANSWER_MS)
        except OSError:
            return
        if response.code != ResponseCode.SUCCESS:
            return
        brokers = {BrokerAddress(*identity) for identity in identities_of_route(response.body)}
        presences, listed, names = (
            self._presences(),
            {each.address for each in brokers},
            {each.broker for each in brokers},
        )
        # A route has all brokers of a name, but a slave alone may still lack the topic of its master.
        others = {
            each.address: presences[each]
            for each in presences
            if name_server in name_servers_of(self.plan, each, [other for other in presences if other != each])
            if not each.is_slave or each.broker in names
            if name_server.address not in (*earlier[each].timed_out_at, *presences[each].timed_out_at)
        }
        self.run.report(routes.check_identities(brokers, presences))
        since_ns = presences[name_server].serves_since_ns
        if since_ns is None or since_ns > asked_ns:
            return  # the answer may be from before the name server's last start
        known = self._registered.setdefault((name_server, since_ns), {})
        registered = {address for address, each in others.items() if known.get(address, -1) == each.serves_since_ns}
        judged = presences[name_server], others, asked_ns, self._bounds, registered
        self.run.report(routes.check_listed_brokers(listed, *judged))
        for address, each in others.items():
            # Until its first registration has arrived, an earlier one may be listed.
            if each.serves_since_ns is not None and each.serves_since_ns + self._bounds.late_ms * 10**6 < asked_ns:
                known |= {address: each.serves_since_ns} if address in listed else {}
