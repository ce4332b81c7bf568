"""Target: RocketMQ's JSON files, and broker.conf.

An input is a file name followed by the file's text. A file must have the same content after it was read, written and
read again. A manager must report an unreadable file as damaged, because the input has no backup file.
"""

import json
from collections.abc import Sequence

from ....faults.disk.image import FileImage, Image
from ....store.config import ConfigError
from ....store.delivery.schedule import decoded_offsets, encoded_offsets
from ....store.errors import CorruptFileError
from ....store.formats import side_json
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.settings import broker_conf
from ....store.world import World
from ...claims.machine import CONFIG, ROOT
from ..material import BORN_MS, TOPICS
from ..mutation import Draw
from ..shape import Shape
from ..stores import run_on_image
from ..target import InputOutcome, Target, TargetViolation, field_in_error

OFFSETS, LIGHT_OFFSETS, DELAYS, CONF = NAMES = (
    "consumerOffset.json",
    "lmqConsumerOffset.json",
    "delayOffset.json",
    "broker.conf",
)
_GROUPS = ("g", "billing", "%LMQ%light", "Ж")
_OFFSETS = (0, 1, 12, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, -1)
_SETTINGS = (
    "mapedFileSizeCommitLog=1073741824",
    "mappedFileSizeConsumeQueue = 6000000",
    "flushDiskType=SYNC_FLUSH",
    "messageDelayLevel=1s 5s \\\n  10s",
    "deleteWhen:04",
    "diskMaxUsedSpaceRatio 75",
    "enableLmq=true",
    "# brokerName=a",
    "brokerName=b\\u0061r",
    "maxHashSlotNum=500",
    "storePathRootDir=/data/mq",
)
_QUOTED = (b'"', b'\\"', b"\\")
_TOKENS = (*_QUOTED, b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"1e999", b"NaN", b"null", b"\n")
_ESCAPES = (b"\\ud800", b"\\u0000", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"9" * 40, b'{"a":', b"{1:")
_OPENINGS = (b"[", b'{"a":', b"{1:", b'{"a":[')
_MENTIONED = (b'"offsetTable"', b'"lmqOffsetTable"', b'"dataVersion"', b"T1@g", b"{0:12}")
_PIECES = (*_TOKENS, *_ESCAPES, *_MENTIONED)
_PIECES_MAX = 12
_REPEATED_MAX = 1 << 14


class SideJsonTarget(Target):
    """Fuzzes a JSON file or broker.conf."""

    name = "json"
    file = "config/"
    size_bytes_max = 1 << 16
    cpu_seconds_max = 0.5
    memory_bytes_max = 8 << 20

    def valid_input(self, draw: Draw) -> bytes:
        name = draw.choice(NAMES)
        return f"{name}\n".encode() + _draw_content(name, draw)

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        """Mutate an input, and insert pieces of JSON, sometimes one piece many times."""
        data = bytearray(super().mutate(raw, shape, draw, others))
        if draw.chance(0.5):
            for _ in range(draw.randint(1, _PIECES_MAX)):
                at = draw.randbelow(len(data) + 1)
                data[at:at] = draw.choice(_PIECES)
        if draw.chance(0.01):
            piece, at = draw.choice(_PIECES), draw.randbelow(len(data) + 1)
            if draw.chance(0.5):
                piece, at = draw.choice(_OPENINGS), data.find(b"\n") + 1
            data[at:at] = piece * draw.randbelow(_REPEATED_MAX)
        return bytes(data[: self.size_bytes_max])

    def check(self, raw: bytes) -> InputOutcome:
        line, _, content = raw.partition(b"\n")
        name = line.decode(errors="replace")
        if name == CONF:
            return _check_conf(content)
        if name == DELAYS:
            return _check_delays(content)
        return _check_offsets(content, light=name == LIGHT_OFFSETS)


def _draw_content(name: str, draw: Draw) -> bytes:
    if name == CONF:
        return "\n".join(dict.fromkeys(draw.choice(_SETTINGS) for _ in range(draw.randbelow(4)))).encode()
    if name == DELAYS:
        return encoded_offsets({level: draw.choice(_OFFSETS) for level in range(1, draw.randint(1, 4))})
    tables = {
        f"{draw.choice(TOPICS)}@{draw.choice(_GROUPS)}": {
            queue_id: draw.choice(_OFFSETS) for queue_id in range(draw.randbelow(3))
        }
        for _ in range(draw.randbelow(4))
    }
    fields: dict[str, side_json.Table] = {"offsetTable": tables}
    if draw.chance(0.5):
        fields = {"lmqOffsetTable": {f"%LMQ%t@{draw.choice(_GROUPS)}": draw.choice(_OFFSETS)}, **fields}
    if draw.chance(0.2):  # RocketMQ 5.x writes this field
        document = {**fields, "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": BORN_MS}}
        return json.dumps(document, ensure_ascii=False).encode()
    return side_json.encode_side_json(fields)


def _check_conf(content: bytes) -> InputOutcome:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return InputOutcome(False, "conf no text")
    try:
        conf = broker_conf.read_broker_conf(text, ROOT)
    except ConfigError as error:
        if not str(error) or not error.expected:
            raise TargetViolation("error-text", "the expected value", repr(error)) from error
        return InputOutcome(False, f"conf {' '.join(error.expected.split()[:2])}")
    return InputOutcome(True, f"conf {min(len(conf.lines), 4)} {min(len(conf.others), 2)}")


def _check_delays(content: bytes) -> InputOutcome:
    try:
        offsets = decoded_offsets(content, DELAYS)
    except CorruptFileError as error:
        return InputOutcome(False, f"delays {_kind_of(error, DELAYS, len(content))}")
    again = decoded_offsets(encoded_offsets(offsets), DELAYS)
    if again != offsets:
        raise TargetViolation("read-again", offsets, again)
    return InputOutcome(True, f"delays {min(len(offsets), 4)}")


def _check_offsets(content: bytes, *, light: bool) -> InputOutcome:
    name = LIGHT_OFFSETS if light else OFFSETS
    path, what = f"{CONFIG}/{name}", "light" if light else "offsets"
    image = Image({path: FileImage(content, BORN_MS)}, (ROOT, CONFIG))
    return run_on_image(image, lambda world: _load_with_manager(world, path, what, light=light))[0]


def _load_with_manager(world: World, path: str, what: str, *, light: bool) -> InputOutcome:
    manager = ConsumerOffsetManager(world, CONFIG, light_queues=light)
    size_bytes = len(world.files.read(path))
    manager.load()
    damage = manager.file.damage
    if damage is not None:
        return InputOutcome(False, f"{what} {_kind_of(damage, path, size_bytes)}")
    changed = manager.persist()
    again = ConsumerOffsetManager(world, CONFIG, light_queues=light)
    again.load()
    if again.file.damage is not None or again.persist():
        found = again.file.damage or world.files.read(path)[:300]
        raise TargetViolation("read-again", "the written content", found)
    return InputOutcome(True, f"{what} {'written anew' if changed else 'as it is'}")


def _kind_of(error: CorruptFileError, file: str, size_bytes: int) -> str:
    field = field_in_error(error, file, size_bytes)
    found = error.found.partition(" ")[0] if field == "JSON" else ""
    return f"{field if field in ('JSON', 'text', 'offsetTable') else 'field'} {found}"[:32]
