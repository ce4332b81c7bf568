"""The store as a state machine: silent as it is, and with a bug found, made small, and found again in the database."""

import re
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.testing.strategies import StoreBroke, StoreMachine, StoreSession
from tornlog.scenarios.testing.strategies.choices import DrawnChoices
from tornlog.sim.policies.replay import Deviating

pytestmark = pytest.mark.slow

QUIET = settings(database=None, derandomize=True, max_examples=120, stateful_step_count=20, print_blob=False)


class AcknowledgesTooEarly(StoreMachine):
    """A store that answers before it has synced."""

    mutant = "ack-before-flush"


class ForgetsNames(StoreMachine):
    """A store that does not sync the name of a new segment: only a power cut can show that."""

    mutant = "no-dir-fsync-on-rollover"


def steps_of(error: BaseException) -> list[str]:
    """Return the steps that Hypothesis shows with an error, the first and the last left out."""
    shown = "\n".join(getattr(error, "__notes__", ()))
    return re.findall(r"^state\.(?!begin|teardown)(\w+)\(", shown, re.MULTILINE)


def test_the_store_keeps_its_promises_under_all_steps_of_hypothesis() -> None:
    run_state_machine_as_test(StoreMachine, settings=QUIET)


def test_a_bug_is_found_made_small_and_found_again_in_the_database(tmp_path: Path) -> None:
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


def test_what_a_power_cut_took_is_shown() -> None:
    quick = settings(QUIET, max_examples=4_000, phases=[Phase.generate], report_multiple_bugs=False)
    # A log that lacks its first segment has lost it whether anything in it was promised or not.
    gone = r"DUR: .* was promised and is gone|CLEAN: the log has lost more than retention removed"
    with pytest.raises(StoreBroke, match=gone) as found:
        run_state_machine_as_test(ForgetsNames, settings=quick)

    shown = "\n".join(getattr(found.value, "__notes__", ()))
    assert re.search(r"^drawn: disk-\d+: create \S+ lost #\d+: 1 of 2$", shown, re.MULTILINE)
    assert {"put", "crash"} & set(steps_of(found.value))


def session(plan: Plan, *deviations: tuple[int, int]) -> StoreSession:
    return StoreSession(plan, DrawnChoices(lambda options: 0), Deviating(deviations))


@pytest.fixture(scope="session")
def one_user(quiet_plan: Plan) -> Plan:
    return quiet_plan.replace(producers=1, index={"slots": 5, "seekers": 1}, disk="strict-posix", lives=())


def test_a_session_goes_through_lives_that_end_in_every_way(one_user: Plan) -> None:
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


def test_a_plug_that_is_pulled_at_an_operation_ends_the_step_it_is_in(one_user: Plan) -> None:
    store = session(one_user)
    store.open()
    assert store.put()
    store.fail_power(0, "before")

    assert not store.put()
    assert not store.is_running
    assert not store.open(0)  # in load, too
    assert store.open()
    assert store.ledger.puts[0].name in store.ledger.promised
    store.close()


def test_a_look_up_that_finds_something_else_is_a_broken_promise(one_user: Plan) -> None:
    store = session(one_user)
    store.open()
    store.put()
    store.flush()
    (put,) = store.ledger.puts
    put.body += b"?"

    with pytest.raises(StoreBroke, match=r"READ: looking up m0\.0\.0 gives something else .*: body: expected"):
        store.look_up()


def test_a_record_that_is_not_found_is_a_broken_promise(one_user: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    store = session(one_user)
    store.open()
    store.put()
    store.flush()
    monkeypatch.setattr("tornlog.store.message_store.MessageStore.look_message_by_offset", lambda *_: None)

    with pytest.raises(StoreBroke, match=r"READ: .*record: expected m0\.0\.0, found none"):
        store.look_up()


def test_a_plan_that_asks_for_users_a_session_does_not_have_is_refused(one_user: Plan) -> None:
    with pytest.raises(ValueError, match=r"a session has no steps for delay\.chance, retention\.deletes_segments"):
        session(one_user.replace(delay={"chance": 0.5}, retention={"deletes_segments": True}))
