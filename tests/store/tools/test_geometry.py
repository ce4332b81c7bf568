import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog
from tornlog.store.config import ConfigError
from tornlog.store.errors import CorruptFileError
from tornlog.store.real.overlay import OverlayFiles
from tornlog.store.tools.geometry import Geometry, config_of_directory

INDEX_CONF = "maxHashSlotNum=20\nmaxIndexNum=420\n"


@pytest.fixture
def root(golden: Callable[[str], Any]) -> str:
    """A store with index files of 100 slots and 400 entries; 20 and 416 would have the same size."""
    return str(golden("08-clean-shutdown").before)


def test_a_geometry_contains_only_the_size_and_path_settings_of_broker_conf() -> None:
    assert Geometry.of_broker_conf("brokerName=a\nflushDiskType=SYNC_FLUSH") == Geometry()
    assert Geometry.of_broker_conf(
        "mapedFileSizeCommitLog=4096\nmappedFileSizeConsumeQueue=110\nmaxMessageSize=99\nmessageDelayLevel=1s\n"
        "storePathCommitLog=/a,/b\nreadOnlyCommitLogStorePaths=/a\nmappedFileSizeConsumeQueueExt=640\n"
        "maxHashSlotNum=20\nmaxIndexNum=150\nmessageIndexEnable=false"
    ) == Geometry(4096, 120, 99, "1s", "/a,/b", "/a", 640, 20, 150, False)


def test_an_invalid_broker_conf_is_refused_as_geometry() -> None:
    with pytest.raises(ConfigError, match=r"^line 1: maxMessageSize: expected an integer, found '1k'$"):
        Geometry.of_broker_conf("maxMessageSize=1k")


def test_the_geometry_of_an_index_is_derived_from_its_files_unless_it_is_given(root: str) -> None:
    files = OverlayFiles()
    guessed = config_of_directory(files, root, Geometry())
    told = config_of_directory(files, root, Geometry(hash_slots=20))
    assert (guessed.max_hash_slot_num, guessed.max_index_num) == (100, 400)
    assert (told.max_hash_slot_num, told.max_index_num) == (20, 416)
    assert guessed.message_index_enable
    assert not config_of_directory(files, root, Geometry(has_index=False)).message_index_enable


@pytest.mark.parametrize("command", ["inspect", "verify"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (100, 400)),
        (["--hash-slots", "20"], (20, 416)),
        (["--index-entries", "416"], (20, 416)),
        (["--config"], (20, 420)),
        (["--config", "--hash-slots", "30"], (30, 420)),
    ],
)
def test_options_override_broker_conf_and_both_override_the_index_files(
    root: str, tmp_path: Path, command: str, options: list[str], expected: tuple[int, int]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(INDEX_CONF)
    if options[:1] == ["--config"]:
        options = ["--config", str(conf), *options[1:]]
    result = tornlog(command, root, "--json", "-", *options)
    geometry = json.loads(result.stdout)["geometry"]
    assert (geometry["maxHashSlotNum"], geometry["maxIndexNum"]) == expected
    assert geometry["enableConsumeQueueExt"] is False


def test_segments_longer_than_the_maximum_are_damage(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with open(tmp_path / "commitlog" / f"{0:020}", "wb") as segment:
        os.truncate(segment.fileno(), 1 << 31)
    result = tornlog("inspect", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == f"commitlog/{0:020} @ 0: file size: expected 1073741824, found 2147483648\n"


def test_a_log_with_only_read_only_directories_is_damage(root: str) -> None:
    told = Geometry(read_only_commit_log_paths=f"{root}/commitlog")
    with pytest.raises(CorruptFileError, match="a directory of the log that is not read-only"):
        config_of_directory(OverlayFiles(), root, told)
