"""Store machine: finds no violation in the store, and finds and shrinks planted bugs."""

import re
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.testing.strategies import StoreBroke, StoreMachine, StoreSession
from tornlog.scenarios.testing.strategies.choices import DrawnChoices
from tornlog.sim.policies.replay import DeviatingPolicy

pytestmark = pytest.mark.slow

QUIET = settings(database=None, derandomize=True, max_examples=120, stateful_step_count=20, print_blob=False)


class AcknowledgesTooEarly(StoreMachine):
    """A store that answers before it has synced."""

    mutant = "ack-before-flush"


class ForgetsNames(StoreMachine):
    """A store that does not sync the name of a new segment. Only a power cut can reveal this bug."""

    mutant = "no-dir-fsync-on-rollover"


def steps_of(error: BaseException) -> list[str]:
    """Return the steps that Hypothesis prints with an error, without the first and the last one."""
    shown = "\n".join(getattr(error, "__notes__", ()))
    return re.findall(r"^state\.(?!begin|teardown)(\w+)\(", shown, re.MULTILINE)


def test_the_store_keeps_its_promises_under_all_hypothesis_steps() -> None:
    run_state_machine_as_test(StoreMachine, settings=QUIET)


def test_hypothesis_finds_and_shrinks_a_bug_and_replays_it_from_its_database(tmp_path: Path) -> None:
    database = DirectoryBasedExampleDatabase(tmp_path)
    finding = settings(QUIET, derandomize=False, database=database, phases=[Phase.generate, Phase.shrink])
    with pytest.raises(StoreBroke, match=r"STATUS: .* was answered OK before it was durable") as found:
        run_state_machine_as_test(AcknowledgesTooEarly, settings=finding)

    assert steps_of(found.value)[-1] == "put"
    assert len(steps_of(found.value)) <= 2
    reusing = settings(finding, phases=[Phase.reuse, Phase.shrink])
    with pytest.raises(StoreBroke) as again:
        run_state_machine_as_test(AcknowledgesTooEarly, settings=reusing)
    assert str(again.value) == str(found.value)
    assert steps_of(again.value) == steps_of(found.value)


def test_a_failure_prints_the_data_lost_in_a_power_cut() -> None:
    quick = settings(QUIET, max_examples=4_000, phases=[Phase.generate], report_multiple_bugs=False)
    # A missing first segment is a violation even if no message in it was promised.
    gone = r"DUR: .* was promised and is gone|CLEAN: segments are missing that retention did not remove"
    with pytest.raises(StoreBroke, match=gone) as found:
        run_state_machine_as_test(ForgetsNames, settings=quick)

    shown = "\n".join(getattr(found.value, "__notes__", ()))
    assert re.search(r"^drawn: disk-\d+: create \S+ lost #\d+: 1 of 2$", shown, re.MULTILINE)
    assert {"put", "crash"} & set(steps_of(found.value))


def session(plan: Plan, *deviations: tuple[int, int]) -> StoreSession:
    return StoreSession(plan, DrawnChoices(lambda options: 0), DeviatingPolicy(deviations))


@pytest.fixture(scope="session")
def one_user() -> Plan:
    return QUIET_PLAN.replace(producers=1, index={"slots": 5, "seekers": 1}, disk="strict-posix", lives=())


def test_lives_of_a_hypothesis_session_can_end_in_every_way(one_user: Plan) -> None:
    store = session(one_user)

    assert store.open()
    assert all((store.put(), store.put(), store.pull(), store.look_up(), store.query(), store.flush()))
    store.crash()
    assert not store.is_running
    assert store.open()
    assert len(store.ledger.promised) == 2
    assert store.put()
    assert store.stop()
    assert store.open()
    assert all((store.pass_time(5_000), store.catch_up(), store.look_up()))
    assert (store.lives, len(store.ledger.promised)) == (3, 3)
    store.close()


def test_a_power_cut_at_an_operation_ends_the_hypothesis_step(one_user: Plan) -> None:
    store = session(one_user)
    store.open()
    assert store.put()
    store.fail_power(0, "before")

    assert not store.put()
    assert not store.is_running
    assert not store.open(0)  # a crash during the load
    assert store.open()
    assert store.ledger.puts[0].name in store.ledger.promised
    store.close()


def test_a_lookup_that_returns_another_record_is_a_broken_promise(one_user: Plan) -> None:
    store = session(one_user)
    store.open()
    store.put()
    store.flush()
    (put,) = store.ledger.puts
    put.body += b"?"

    with pytest.raises(StoreBroke, match=r"READ: looking up m0\.0\.0 returns something else .*: body: expected"):
        store.look_up()


def test_a_lookup_without_a_result_is_a_broken_promise(one_user: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    store = session(one_user)
    store.open()
    store.put()
    store.flush()
    monkeypatch.setattr("tornlog.store.message_store.MessageStore.look_message_by_offset", lambda *_: None)

    with pytest.raises(StoreBroke, match=r"READ: .*record: expected m0\.0\.0, found none"):
        store.look_up()


def test_a_hypothesis_session_refuses_a_plan_with_unsupported_features(one_user: Plan) -> None:
    with pytest.raises(ValueError, match=r"a session does not support delay\.chance, retention\.deletes_segments"):
        session(one_user.replace(delay={"chance": 0.5}, retention={"deletes_segments": True}))
