from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.cli.options import IN_PROCESS, absolute_place

SWEEP = ["sweep", "--scenario", "clean-shutdown", "--seeds", "1", "--out"]
REBUILD = ["rebuild", "store", "--to"]


def test_a_path_becomes_absolute_and_a_uri_stays_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute_place("sweep") == f"{tmp_path}/sweep"
    assert absolute_place("/store/") == "/store"
    assert absolute_place("hdfs://name/store") == "hdfs://name/store"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("nowhere://name/store", "nowhere"),
        ("hdfs://name:8020/store?user=me", "set up in HADOOP_CONF_DIR, not by ?user=me"),
        ("hdfs://name/store", "needs a port"),
    ],
)
@pytest.mark.parametrize("command", [SWEEP, ["audit"], REBUILD])
def test_a_uri_of_an_unknown_file_system_is_refused(
    uri: str, why: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)

    ended = tornlog(*command, uri, "--master", IN_PROCESS, columns=200)

    assert ended.exit_code == 2, ended.output
    assert why in ended.output
    assert ("DIR" if command == ["audit"] else command[-1]) in ended.output


def test_the_error_for_an_unwritable_place_of_a_sweep_names_the_place() -> None:
    ended = tornlog(*SWEEP, "/proc/sweep", "--master", IN_PROCESS)

    assert ended.exit_code == 2, ended.output
    assert "--out: /proc/sweep: No such file or directory" in ended.output
