"""Each request of RocketMQ 4.9 is in a scenario, or in a list with a reason; the page and the runs agree."""

from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.runs.broker import request_coverage
from tornlog.scenarios.runs.broker.request_coverage import NOT_SIMULATED, codes_of, coverage_tables, scenarios_by_code
from tornlog.scenarios.runs.broker.watched_requests import WatchedRequests
from tornlog.store.broker.requests import RequestCode
from tornlog.store.broker.router import Channel, Processor, Response
from tornlog.store.formats.remoting.command import RemotingCommand

PAGE = Path(__file__).resolve().parents[4] / "docs" / "simulated-requests.md"
BEGIN, END = "<!-- table of request_coverage -->\n\n", "\n\n<!-- end of table -->"
OF_BROKERS = [name for name, scenario in SCENARIOS.items() if scenario.ranges.has_brokers]
SEEDS = 8


def test_every_request_is_in_a_scenario_or_has_a_reason() -> None:
    lacking = {code for code, names in scenarios_by_code().items() if not names}
    assert lacking == set(NOT_SIMULATED)


def test_a_request_without_a_scenario_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    users = {name: user for name, user in request_coverage.USERS.items() if name != "lookup clients"}
    monkeypatch.setattr(request_coverage, "USERS", users)
    assert not scenarios_by_code()[RequestCode.QUERY_MESSAGE]


def test_the_page_has_the_derived_tables() -> None:
    """To renew the page, replace its part between the two marks by `coverage_tables()`."""
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == coverage_tables()


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_BROKERS)
def test_brokers_receive_only_the_declared_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received: set[RequestCode] = set()
    process = WatchedRequests._process_request

    def record(self: WatchedRequests, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        received.add(RequestCode(request.code))
        return process(self, processor, request, channel)

    monkeypatch.setattr(WatchedRequests, "_process_request", record)
    for seed in range(SEEDS):
        run_seed(SCENARIOS[name], seed)
    declared = codes_of(SCENARIOS[name].ranges)
    assert received <= declared
    assert len(received) >= len(declared) // 2, declared - received
