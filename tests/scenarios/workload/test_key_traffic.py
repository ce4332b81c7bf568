"""Messages with shared keys, and the seekers that look them up."""

from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.workload.options import SHARED_KEYS, UNIQUE_KEYS, draw_keys
from tornlog.scenarios.workload.skew import EVEN
from tornlog.sim.choices import Choices
from tornlog.store.formats.index_key import key_hash
from tornlog.store.index.key_query import QueryMessageResult
from tornlog.store.message_store import MessageStore


@pytest.fixture
def keyed() -> Plan:
    plan = QUIET_PLAN.replace(index={"slots": 5, "entries": 12, "keys_chance": 0.6, "seekers": 2})
    return plan.replace(topics=1, messages={"equal_sizes": False})


def drawn_keys(plan: Plan) -> list[tuple[list[str], str]]:
    stream = Choices("keys").stream("producer")
    return [draw_keys(stream, plan, "m0", EVEN) for _ in range(200)]


def test_some_messages_have_shared_keys_and_some_have_a_unique_key(keyed: Plan) -> None:
    keys = drawn_keys(keyed)
    assert {key for shared, _ in keys for key in shared} == set(SHARED_KEYS)
    assert {unique for _, unique in keys} == {"", "m0", *UNIQUE_KEYS}
    assert ([], "") in keys


def test_without_a_key_chance_no_keys_are_drawn() -> None:
    stream = Choices("keys").stream("producer")
    assert draw_keys(stream, QUIET_PLAN, "m0", EVEN) == ([], "")
    assert stream.draw_count == 0


def test_some_shared_keys_have_equal_hashes() -> None:
    hashes = [key_hash("T0", key.encode()) for key in SHARED_KEYS]
    assert all(one == other for one, other in pairwise(hashes[:3]))
    assert len(set(hashes)) == len(SHARED_KEYS) - 2


def test_clients_query_put_keys_shared_keys_and_unused_keys(keyed: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: list[int] = []
    query_message = MessageStore.query_message

    def watched(self: MessageStore, topic: str, key: str, *arguments: Any) -> QueryMessageResult:
        result = query_message(self, topic, key, *arguments)
        asked.append(key)
        answers.append(len(result.records))
        return result

    monkeypatch.setattr(MessageStore, "query_message", watched)
    plan = keyed.replace(pauses={"chance": 0.5, "ms_max": 5})
    for seed in range(5):
        assert execute(plan, str(seed)).violations == []
    assert set(asked) & set(SHARED_KEYS)
    assert any(key.startswith("m0.1.") for key in asked)
    assert {0, 1} <= set(answers)
    assert max(answers) > 1


def test_a_store_without_an_index_need_not_find_messages(keyed: Plan) -> None:
    assert execute(keyed.replace(index={"slots": 0}, pauses={"chance": 0.5, "ms_max": 5})).violations == []
