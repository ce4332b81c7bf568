from pathlib import Path

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.checkpoint import CheckpointValues, encode_checkpoint_file
from tornlog.store.real.files import RealFiles
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory
from tornlog.store.tools.verify_files import damaged_side_files

DAMAGED = {
    "delayOffset.json": b'{"offsetTable":{1:"x"}}',
    "consumerOffset.json": b'{"offsetTable":{"T@G":{"q":1}}}',
    "lmqConsumerOffset.json": b"{",
    "topics.json": b'{"topicConfigTable":',
    "subscriptionGroup.json": b"\xff",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "checkpoint").write_bytes(encode_checkpoint_file(CheckpointValues(0, 0, 0)))
    return tmp_path


@pytest.mark.parametrize("name", DAMAGED)
def test_the_finding_for_a_damaged_side_file_names_it(root: Path, name: str) -> None:
    (root / "config" / name).write_bytes(DAMAGED[name])
    found = list(damaged_side_files(RealFiles(), StoreConfig(str(root))))
    assert [one.file for one in found] == [str(root / "config" / name)]
    verified = verify_directory(RealFiles(), str(root), Geometry(), lambda _: None)
    assert [(one.promise.value, one.file) for one in verified.findings.violations] == [("META", f"config/{name}")]


def test_backups_and_valid_or_empty_side_files_are_not_reported(root: Path) -> None:
    for name, content in {
        "delayOffset.json": b'{"offsetTable":{1:20}}',
        "topics.json": b"{}",
        "consumerOffset.json": b"",
        "consumerOffset.json.bak": b"{",
        "topics.json.damaged": b"{",
    }.items():
        (root / "config" / name).write_bytes(content)
    assert list(damaged_side_files(RealFiles(), StoreConfig(str(root)))) == []
