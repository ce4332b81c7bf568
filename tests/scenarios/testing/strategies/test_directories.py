"""Drawn store directories: a real store opens each."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from tornlog.scenarios.testing.strategies import DrawnDirectory, store_directories
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world


@pytest.mark.ci
def test_a_real_store_opens_any_generated_directory_and_recovers_its_messages() -> None:
    seen = []

    @settings(database=None, derandomize=True, max_examples=30)
    @given(left=store_directories())
    def check(left: DrawnDirectory) -> None:
        with tempfile.TemporaryDirectory() as place:
            store = MessageStore(real_world(), left.export(Path(place)))
            store.load()
            seen.append((store.max_phy_offset, (Path(place) / "abort").exists(), left.image.digest()))
            store.close()

    check()

    assert len({digest for _, _, digest in seen}) > 10
    assert any(end > 0 for end, _, _ in seen)
    assert {abort for _, abort, _ in seen} == {True, False}


def test_exporting_to_a_missing_directory_is_refused(tmp_path: Path) -> None:
    @settings(database=None, derandomize=True, max_examples=1)
    @given(left=store_directories())
    def check(left: DrawnDirectory) -> None:
        if left.image.files:
            with pytest.raises(FileNotFoundError):
                left.export(tmp_path / "nowhere")

    check()
