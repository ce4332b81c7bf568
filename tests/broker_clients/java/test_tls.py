"""The official client uses TLS with a broker that has a certificate."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ci


def test_messages_are_sent_and_received_over_tls(serve: Any, connect: Any, certificates: Path) -> None:
    made, key = str(certificates / "server.pem"), str(certificates / "server.key")
    client = connect(serve("--tls-cert", made, "--tls-key", key))
    client.admin(tls=True)("createTopic", topic="private", queues=2)
    body = "secret " * 10_000
    sent = client.producer(tls=True).send("private", body)
    assert sent["status"] == "SEND_OK"
    (message,) = client.consumer("private", "readers", tls=True).wait_for(1)
    assert message["body"] == body
