"""A slave's client when its master changes."""

from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.config import BrokerRole
from tornlog.store.errors import DivergedError
from tornlog.store.replication.ha_client import HAClient

Start = Callable[..., Any]


class _Connection:
    remote_address = "old:1"

    def close(self) -> None:
        """No-op."""


def test_divergence_from_an_old_master_does_not_affect_the_new_one(
    node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = node("slave", BrokerRole.SLAVE)
    client = HAClient(slave.store)
    client.master_address = "old:1"

    def changed_meanwhile(*_: object) -> None:
        client.update_master_address("new:1")
        raise DivergedError(1, "this", "that")

    monkeypatch.setattr(client, "_take_all", changed_meanwhile)
    client._follow(_Connection(), None, "old:1")
    assert client.diverged is None

    client.update_master_address("old:1")
    monkeypatch.setattr(client, "_take_all", lambda *_: (_ for _ in ()).throw(DivergedError(1, "this", "that")))
    client._follow(_Connection(), None, "old:1")
    assert client.diverged is not None
