import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.overlay import OverlayMappedFile
from tornlog.store.real.world import overlay_world
from tornlog.store.tools import verify_files
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory


@pytest.mark.parametrize("give_back_bytes", [1, 4096, 1 << 20])
@pytest.mark.parametrize("case", ["08-clean-shutdown", "14-abn-torn-tail", "14-cln-early-zero-page"])
def test_releasing_pages_does_not_change_the_findings(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, case: str, give_back_bytes: int
) -> None:
    root = golden(case).before

    def fields() -> dict[str, Any]:
        return verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None).fields()

    expected = fields()
    given_back: dict[str, int] = {}
    advise = OverlayMappedFile.advise_dont_need

    def noted(file: OverlayMappedFile, start: int, end: int) -> None:
        assert 0 <= start <= end <= file.size_bytes
        given_back[file.path] = max(given_back.get(file.path, 0), end)
        advise(file, start, end)

    monkeypatch.setattr(OverlayMappedFile, "advise_dont_need", noted)
    monkeypatch.setattr(verify_files, "_GIVE_BACK_BYTES", give_back_bytes)

    assert fields() == expected
    first, *_ = sorted((root / "commitlog").iterdir())
    assert given_back[str(first)] > first.stat().st_size // 2


@pytest.mark.parametrize("file", [f"consumequeue/Mix1/1/{0:020d}", f"commitlog/{32768:020d}"])
def test_a_too_long_file_is_read_only_up_to_the_segment_size(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    root = golden("08-clean-shutdown").before
    size_bytes = (root / file).stat().st_size
    os.truncate(root / file, 1 << 33)
    view = OverlayMappedFile.view

    def noted(mapped: OverlayMappedFile, start: int, end: int) -> memoryview:
        assert end <= size_bytes or not mapped.path.endswith(file)
        return view(mapped, start, end)

    monkeypatch.setattr(OverlayMappedFile, "view", noted)
    found = verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None).findings.violations

    assert [(one.file, one.field, one.expected, one.found) for one in found] == [
        (file, "file size", str(size_bytes), str(1 << 33))
    ]


def resident_bytes(directory: Path) -> int:
    """Return the resident bytes of the maps of a directory's files."""
    resident, counts = 0, False
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            counts = str(directory) in rest
        elif name == "Rss:" and counts:
            resident += int(rest.split()[0]) * 1024
    return resident


def test_the_memory_of_verify_does_not_grow_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., MessageStore]
) -> None:
    segment_bytes, kept_bytes = 8 << 20, 1 << 20
    config = StoreConfig(str(tmp_path / "store"), mapped_file_size_commit_log=segment_bytes, message_index_enable=False)
    store = started(config)
    message = Message.create("T", b"x" * 65_000)
    while store.max_phy_offset < 3.5 * segment_bytes:  # the rest is zeros, which are read too
        store.put_message(message)
    assert store.shutdown()
    monkeypatch.setattr(verify_files, "_GIVE_BACK_BYTES", kept_bytes)
    log = tmp_path / "store/commitlog"
    seen: list[int] = []
    found = verify_directory(
        overlay_world().files,
        str(tmp_path / "store"),
        Geometry(commit_log_bytes=segment_bytes),
        lambda read_bytes: seen.append(resident_bytes(log)),
    )

    assert found.findings.violations == []
    assert len(seen) >= 4
    assert max(seen) <= 2 * kept_bytes
