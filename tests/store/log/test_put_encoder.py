"""Put encoder: the same result with and without the C core."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.config import StoreConfig
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.columns import NativeCore
from tornlog.store.formats.host import Host
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.log.put_encoder import EncodedPut, PutEncoder

CONFIG = StoreConfig("store", max_message_size=600, mapped_file_size_commit_log=1024, enable_multi_dispatch=True)
LIGHT = "INNER_MULTI_DISPATCH\x01T,%LMQ%a\x02"
ODD = st.sampled_from(["", "DELAY\x012\x02", "DELAY\x0199\x02", LIGHT, "a\x01\0", "k\x01v"])
PROPERTIES = st.lists(ODD, max_size=2).map("".join)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535))
MESSAGES = st.builds(
    Message,
    topic=st.sampled_from(["T", "a/b", "", "t" * 127, "t" * 128, "\u4e3b" * 43]),
    body=st.binary(max_size=40) | st.just(bytes(600)) | st.just(bytes(601)),
    queue_id=st.sampled_from([0, 3, -1, 2**31]),
    properties=PROPERTIES | st.just("p" * 32_768),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 1, 4, 8, 12, 0x30]),
    born_timestamp_ms=st.integers(0, 2**62),
    born_host=HOSTS,
    store_host=HOSTS,
)
UNITS = st.builds(BatchUnit, st.integers(0, 9), st.binary(max_size=80), PROPERTIES.map(str.encode))
BATCHES = st.builds(MessageBatch, MESSAGES, st.lists(UNITS, max_size=4).map(encode_batch) | st.binary(max_size=60))


def comparable_parts(encoded: EncodedPut | PutMessageStatus) -> Any:
    """Return the comparable parts of a result. Light queues are compared by their longest properties."""
    if isinstance(encoded, PutMessageStatus):
        return encoded
    light = encoded.light and encoded.light.properties_with_widest_offsets()
    rest = (encoded.topic, encoded.queue_id, encoded.store_host, encoded.born_host_v6, encoded.counted)
    return bytes(encoded.buffer), encoded.starts, light, rest


@given(MESSAGES | BATCHES)
def test_a_message_is_encoded_equally_with_and_without_the_core(
    core: NativeCore, message: Message | MessageBatch
) -> None:
    assert comparable_parts(PutEncoder(CONFIG, core).encode(message)) == comparable_parts(
        PutEncoder(CONFIG, None).encode(message)
    )


BEYOND_INT, BEYOND_LONG = 1 << 31, 1 << 63
HALF = "half \ud800"
WITHOUT_RECORD: dict[str, dict[str, Any]] = {
    "topic with half a surrogate pair": {"topic": HALF},
    "properties with half a surrogate pair": {"properties": f"a\x01{HALF}"},
    "delayed, with half a surrogate pair": {"properties": f"DELAY\x011\x02a\x01{HALF}"},
    "light queue with half a surrogate pair": {"properties": f"INNER_MULTI_DISPATCH\x01{HALF}"},
    "properties with a NUL": {"properties": "a\x01\0"},
    "sysFlag": {"sys_flag": BEYOND_INT},
    "bornTimestamp": {"born_timestamp_ms": BEYOND_LONG},
    "reconsumeTimes": {"reconsume_times": -BEYOND_INT - 1},
    "port": {"born_host": Host(bytes(4), BEYOND_INT)},
    "address": {"store_host": Host(bytes(5), 1)},
}
OF_ONE_MESSAGE = {"flag": {"flag": BEYOND_INT}, "transaction offset": {"prepared_transaction_offset": BEYOND_LONG}}


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("name", [*WITHOUT_RECORD, *OF_ONE_MESSAGE])
def test_a_message_that_does_not_fit_into_a_record_is_refused_without_an_exception(
    core: NativeCore, name: str, is_batch: bool
) -> None:
    message = replace(Message("T", b"body"), **(WITHOUT_RECORD | OF_ONE_MESSAGE)[name])
    given: Message | MessageBatch = MessageBatch(message, encode_batch([BatchUnit(0, b"body", b"")]))
    if not is_batch:
        given = message
    elif name in OF_ONE_MESSAGE:
        pytest.skip("each message of a batch has its own")
    for each in (core, None):
        assert PutEncoder(CONFIG, each).encode(given) is PutMessageStatus.MESSAGE_ILLEGAL
