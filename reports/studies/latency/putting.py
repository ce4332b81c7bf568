"""What is put, in both worlds alike."""

from collections.abc import Callable

from ....store.message import Message, PutMessageStatus
from ....store.message_store import MessageStore
from .setup import Setup


def message_of(setup: Setup) -> Message:
    """Return what is put."""
    return Message.of("Latency", bytes(setup.body_bytes))


def checked_put(store: MessageStore, message: Message) -> Callable[[], None]:
    """Return a call that puts a message. RuntimeError: it was not answered PUT_OK."""

    def put() -> None:
        status = store.put_message(message).status
        if status is not PutMessageStatus.PUT_OK:
            raise RuntimeError(f"a put was answered {status.name}")

    return put
