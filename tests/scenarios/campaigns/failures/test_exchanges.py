"""Exchanges: the requests about the objects of a violation are found among hundreds of others."""

import re
from collections.abc import Sequence
from itertools import count

from tornlog.scenarios.campaigns.failures.exchanges import Exchange
from tornlog.scenarios.campaigns.failures.story import STORY_LINES, story_of
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.sim.trace import TraceEvent
from tornlog.store.config import StoreConfig

WRONG = Violation("META", "readers in T0/1 has a wrong offset", "", -1, "offset", "1", "2")


class Requests:
    """Requests of clients to one broker, as events and exchanges."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.exchanges: list[Exchange] = []
        self._opaques = count(1)

    def ask(
        self, name: str, *, client: str = "10.0.0.9", answer: str = "SUCCESS", ms: int = 1, **fields: str
    ) -> Exchange:
        place = f"{fields['topic']}/{fields['queueId']}" if "queueId" in fields else ""
        made = Exchange(name, place, fields, "", f"{client}:40000", "10.0.0.1:10911", False, next(self._opaques))
        made.asked = self._add("client/asks", "send", f"{made.client}>{made.server}, {name}", 0)
        made.answered = self._add("life-0/admin 0", "send", f"{made.server}>{made.client}, answer to {name}", ms)
        made.answer, made.handler = answer, "broker/processors/group_admin.py:7 handles"
        self.exchanges.append(made)
        return made

    def ask_often(self) -> None:
        for number in range(40):
            self.ask("SEND_MESSAGE", topic="T0", queueId=str(number % 2), producerGroup="sellers")

    def add(self, kind: str, text: str) -> None:
        self._add("life-0/main", kind, text, 0)

    def story(self, judged: Exchange | None = None, violations: Sequence[Violation] = (WRONG,)) -> list[str]:
        config = StoreConfig("/store")
        return story_of(self.events, violations, config, exchanges=self.exchanges, judged=judged)

    def _add(self, task: str, kind: str, text: str, ms: int) -> int:
        step, now_ns = len(self.events), (self.events[-1].now_ns if self.events else 0) + ms * 1_000_000
        self.events.append(TraceEvent(now_ns, step, task, kind, text))
        return step


def test_a_request_about_the_same_object_comes_before_those_of_the_same_queue() -> None:
    run = Requests()
    run.ask("CLONE_GROUP_OFFSET", srcGroup="others", destGroup="readers", topic="T0")
    run.ask_often()
    judged = run.ask(
        "QUERY_CONSUMER_OFFSET", answer="SUCCESS offset=2", consumerGroup="readers", topic="T0", queueId="1"
    )
    story = run.story(judged)

    assert len(story) <= STORY_LINES
    assert "client/asks: request CLONE_GROUP_OFFSET srcGroup=others destGroup=readers -> SUCCESS (life-0)" in story[1]
    assert "judged request QUERY_CONSUMER_OFFSET T0/1 consumerGroup=readers -> SUCCESS offset=2 (life-0)" in story[-1]
    assert story[-1].endswith("  [broker/processors/group_admin.py:7 handles]")
    assert story[0].split("chosen for ")[1].startswith("readers")


def test_the_judged_request_is_the_one_of_the_last_requests_that_has_the_name() -> None:
    run = Requests()
    run.ask_often()
    run.ask("QUERY_CONSUMER_OFFSET", consumerGroup="readers", topic="T0", queueId="1")
    last = run.ask("QUERY_CONSUMER_OFFSET", consumerGroup="others", topic="T0", queueId="1")

    assert ["consumerGroup=readers" in line for line in run.story(last) if "judged" in line] == [True]


def test_an_answer_that_took_long_has_its_time_and_the_task_that_sent_it() -> None:
    run = Requests()
    run.ask_often()
    judged = run.ask(
        "PULL_MESSAGE", ms=2_500, answer="PULL_NOT_FOUND", topic="T0", queueId="1", suspendTimeoutMillis="5000"
    )

    text = "suspendTimeoutMillis=5000 -> PULL_NOT_FOUND (life-0/admin 0, after 2500.000 ms)"
    assert text in run.story(judged)[-1]


def test_requests_of_the_judged_client_are_shown_if_the_violation_names_no_object() -> None:
    run = Requests()
    run.ask("HEART_BEAT", client="10.0.0.50")
    run.ask_often()
    judged = run.ask("PULL_MESSAGE", client="10.0.0.50")

    story = run.story(judged, [Violation("LIVE", "a pull is held for a wrong time")])
    assert [line.split("request ")[1].split(" ")[0] for line in story[1:]][::2] == ["HEART_BEAT", "PULL_MESSAGE"]


def test_connections_and_deaths_without_a_request_about_the_object_are_left_out() -> None:
    run = Requests()
    run.add("kill", "life-0")
    run.ask_often()
    for kind in ("refused", "refused connection", "split delivery", "paused task"):
        run.add(kind, "10.0.0.9>10.0.0.1")
    run.add("receive", "10.0.0.1:10911>10.0.0.9:40000, 173 bytes")
    run.ask("DELETE_SUBSCRIPTIONGROUP", groupName="readers")
    run.add("kill", "life-1")
    judged = run.ask("QUERY_CONSUMER_OFFSET", consumerGroup="readers", topic="T0", queueId="1")
    run.add("kill", "consumer-0")

    kinds = [line.split(": ", 1)[1].split(" ")[0] for line in run.story(judged)[1:]]
    assert set(kinds) == {"request", "judged", "kill"}
    assert kinds.count("kill") == 1


def test_a_repeated_request_about_the_object_is_one_line() -> None:
    run = Requests()
    for _ in range(30):
        run.ask("CONSUMER_SEND_MSG_BACK", answer="SYSTEM_ERROR, no such group", group="readers")
    for _ in range(20):
        run.add("sync", "/store/commitlog/00000000000000000000")

    (line,) = (line for line in run.story() if "SEND_MSG_BACK" in line)
    assert re.search(r" -> SYSTEM_ERROR, no such group \(life-0\) \(30 times until \d+\.000 ms\)", line)
