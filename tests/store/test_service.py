"""A service that ends with an unexpected error reports it."""

from collections.abc import Callable
from typing import Any

import pytest

from tornlog.sim.errors import InjectedError
from tornlog.store.config import BrokerRole
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.running_flags import RefusalReason
from tornlog.store.service import Service
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]


class Unforeseen(InjectedError): ...


class Failing(Service):
    name = "failing"

    def run_once(self) -> None:
        raise ZeroDivisionError("of nothing")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_failure_callback_of_a_service_receives_its_error() -> None:
    told: list[tuple[str, str]] = []
    service = Failing(real_world())
    service.on_failure = lambda name, error: told.append((name, repr(error)))
    service.start()
    service.shutdown()
    assert told == [("failing", "ZeroDivisionError('of nothing')")]
    assert isinstance(getattr(service._task, "failure", None), ZeroDivisionError)


@pytest.mark.parametrize(
    "name",
    ["allocate", "flush-real-time", "dispatch", "flush-consume-queue", "retention", "commit-real-time", "schedule"],
)
def test_after_a_service_failure_the_store_names_it_and_refuses_puts_until_a_restart(
    lab: Make, small: Make, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Unforeseen("nobody thought of this")

    def body(world: World) -> None:
        config = small(transient_store_pool_enable=True, transient_store_pool_size=2)
        store = MessageStore(world, config)
        store.load()
        store.start()
        assert store.put_message(Message.create("T", b"before")).status is PutMessageStatus.PUT_OK
        world.tasks.sleep(2_000)
        assert "failedServices" not in store.runtime_info()
        service = next(each for each in store.services if each.name == name)
        monkeypatch.setattr(service, "run_once", fail)
        service.wake()
        world.tasks.sleep(70_000)

        assert store.runtime_info()["failedServices"] == f"{name}: Unforeseen: nobody thought of this"
        assert store.put_message(Message.create("T", b"after")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        store.flags.clear_refusal(RefusalReason.NOT_WRITEABLE)
        assert not store.flags.is_writeable
        assert not store.shutdown()

        again = MessageStore(world, config)
        again.load()
        assert again.get_message("T", 0, 0).records
        assert again.flags.is_writeable
        again.close()

    lab().run(body)


def test_a_slave_has_no_delivery_service(world: World, small: Make) -> None:
    names = [service.name for service in MessageStore(world, small(broker_role=BrokerRole.SLAVE)).services]
    assert "schedule" not in names
    assert "dispatch" in names
