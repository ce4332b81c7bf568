import json
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.latency.real_source import VERSION, RealSource, real_store_program
from tests.conformance.maven import JavaProgram
from tornlog.reports.studies.latency.real.process import StoreProcessFailed, store_process
from tornlog.reports.studies.latency.real.turns import MODES, OWN_SOURCE, OWN_SOURCES, Mode, Source
from tornlog.reports.studies.latency.traffic import Setup
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

pytestmark = pytest.mark.ci
SEGMENT_BYTES = 4 << 20
GAPS = [array("q", [0, 50_000, 2_000_000]), array("q", [1_000, 0])]


@pytest.fixture
def sources(fetched: Callable[[Callable[[], JavaProgram]], JavaProgram]) -> dict[str, Source]:
    return {**OWN_SOURCES, VERSION: RealSource(fetched(real_store_program))}


def locked_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmLck:"))
    return int(kib) << 10


@pytest.mark.parametrize("mode", MODES, ids=Mode.text)
@pytest.mark.parametrize("source", [OWN_SOURCE, VERSION])
def test_each_store_puts_at_the_arrivals_in_its_mode(
    sources: dict[str, Source], source: str, mode: Mode, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    setup = Setup(mode.flush, 2, 1.0, 1, body_bytes=100, segment_bytes=SEGMENT_BYTES, warm=mode.warm)
    with store_process(sources[source](root, setup), tmp_path / "scratch", None) as process:
        found = process.put(GAPS)
        locked = locked_bytes(process.pid)

    assert all(0 < latency <= answered for latency, answered in zip(*found, strict=True))
    assert found.answered_ns[2] >= 2_000_000  # the third put of the first producer arrives later
    assert verify_directory(overlay_world().files, str(root), Geometry(SEGMENT_BYTES), lambda _: None).counts[
        "records"
    ] == 1 + sum(map(len, GAPS))
    pool = 5 * SEGMENT_BYTES if mode.flush == "pool" else 0
    warmed = SEGMENT_BYTES if mode.warm else 0
    pages = 10 * 4096  # a buffer of the pool may begin inside a page
    assert pool + warmed <= locked <= pool + 2 * warmed + pages  # the segment made ahead may be locked, too


def test_a_refused_put_of_the_real_store_is_an_error(sources: dict[str, Source], tmp_path: Path) -> None:
    setup = Setup("sync", 1, 1.0, 1, body_bytes=100)
    command = sources[VERSION](tmp_path / "store", setup)
    assert json.loads(command[-2])["flushDiskType"] == "SYNC_FLUSH"
    command[-1] = str(5 << 20)  # larger than maxMessageSize
    with (
        pytest.raises(StoreProcessFailed, match="a put was answered MESSAGE_ILLEGAL"),
        store_process(command, tmp_path / "scratch", None),
    ):
        pass
