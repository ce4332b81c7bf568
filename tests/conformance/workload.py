"""Workloads for the real store: settings and puts, drawn by seed."""

from dataclasses import dataclass, field
from typing import Any

from tornlog.sim.choices import Choices, Stream
from tornlog.store.config import FlushDiskType, StoreConfig

_TOPICS = ("TA", "TB", "topic-三")
_TAGS = ("", "TagA", "TagB", "polygenelubricants", "标签")
_KEYS = ("k0", "k1", "Aa", "BB", "键", "a-long-key-that-nobody-shares")
_HOSTS = ("127.0.0.1", "127.0.0.1", "2001:db8::7")
_RESTART_CHANCE = 0.4
_PREPARED, _COMMIT, _ROLLBACK = 4, 8, 12
_HALF_TOPIC, _OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@dataclass(frozen=True, slots=True)
class Workload:
    """One life of a real store."""

    seed: int
    config: StoreConfig
    producers: list[list[dict[str, Any]]]
    """Puts of each producer in order, as Writer.java reads them."""
    is_killed: bool
    """Whether it ends in SIGKILL instead of a clean stop."""
    life_ms: int
    """Time from the start to the kill."""
    before: list[list[dict[str, Any]]] = field(default_factory=list)
    """Puts of an earlier life, after which queues have an allocated, empty file; empty: no earlier life."""


def workload_of(seed: int) -> Workload:
    """Draw a life of a real store. Two of three lives end in a kill."""
    stream = Choices(f"compare/real/{seed}").stream("workload")
    config = StoreConfig(
        "/store",
        flush_disk_type=stream.choice(
            (FlushDiskType.ASYNC_FLUSH, FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH), "flush"
        ),
        mapped_file_size_commit_log=stream.choice((8_192, 16_384, 65_536), "log bytes"),
        mapped_file_size_consume_queue=stream.choice((100, 200, 2_000), "queue bytes"),
        message_index_enable=stream.choice((True, True, False), "index"),
        max_hash_slot_num=stream.choice((3, 40), "slots"),
        max_index_num=stream.choice((8, 50, 400), "index entries"),
        message_delay_level="1s 2s 30m",
        store_path_commit_log=stream.choice(("", "", "/store/commitlog,/store/commitlog-2"), "log directories"),
        transient_store_pool_enable=stream.choice((False, False, True), "pool"),
        transient_store_pool_size=2,
        enable_consume_queue_ext=stream.choice((False, False, True), "extensions"),
        mapped_file_size_consume_queue_ext=stream.choice((256, 4_096), "extension bytes"),
    )
    mean = stream.choice((10, 40, 120), "puts")
    pause_ms_max = stream.choice((0, 3, 20), "pause")
    producers = [
        [
            _put(stream, f"{producer}.{number}", pause_ms_max)
            for number in range(1 + stream.randbelow(2 * mean, "count"))
        ]
        for producer in range(stream.choice((1, 2, 4), "producers"))
    ]
    life_ms = 20 + stream.randbelow(1_500, "life ms")
    before: list[list[dict[str, Any]]] = []
    if stream.chance(_RESTART_CHANCE, "restart"):
        count = 10 + stream.randbelow(60, "count before")
        before = [[_put(stream, f"before.{number}", 0) for number in range(count)]]
    return Workload(seed, config, producers, seed % 3 != 0, life_ms, before)


def _put(stream: Stream, name: str, pause_ms_max: int) -> dict[str, Any]:
    put: dict[str, Any] = {
        "name": name,
        "topic": stream.choice(_TOPICS, "topic"),
        "queueId": stream.randbelow(2, "queue"),
        "flag": stream.randbelow(3, "flag"),
        "sysFlag": 0,
        "prepared": 0,
        "bornHost": stream.choice(_HOSTS, "host"),
        "pauseMs": stream.randbelow(pause_ms_max + 1, "pause ms"),
    }
    kind = stream.choice(("plain",) * 6 + ("batch", "delayed", "half", "decided"), "kind")
    if kind == "batch":
        put["batch"] = [_content(stream, f"{name}.{part}") for part in range(1 + stream.randbelow(4, "units"))]
        return put
    put |= _content(stream, name)
    if kind == "delayed":
        put["properties"]["DELAY"] = str(1 + stream.randbelow(4, "level"))
    elif kind == "half":
        put["topic"], put["queueId"] = stream.choice((_HALF_TOPIC, _OP_TOPIC), "half"), 0
    elif kind == "decided":
        put["sysFlag"] = stream.choice((_PREPARED, _COMMIT, _ROLLBACK), "type")
        put["prepared"] = stream.randbelow(1_000, "prepared")
    return put


def _content(stream: Stream, name: str) -> dict[str, Any]:
    properties = {"UNIQ_KEY": f"uq-{name}"} if stream.randbelow(2, "unique") else {}
    keys = [stream.choice(_KEYS, "key") for _ in range(stream.randbelow(3, "keys"))]
    tags = stream.choice(_TAGS, "tags")
    if keys:
        properties["KEYS"] = " ".join(keys)
    if tags:
        properties["TAGS"] = tags
    properties["mine"] = f"{name} " + "p" * stream.choice((0, 10, 300), "property")
    body = f"{name} " + "b" * stream.choice((0, 20, 200, 1_500), "body")
    return {"body": body, "properties": properties}
