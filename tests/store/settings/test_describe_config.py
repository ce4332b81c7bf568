import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tornlog.__main__ import application
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.settings.describe_config import MEANINGS, describe_settings


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "HOME": "/home/mq"}).invoke(application(), ["config", *arguments])


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("\ufeffbrokerName = [b]a\nflushDiskType=SYNC_FLUSH\nfileReservedTime=72\n", encoding="utf-8")
    return path


def test_a_described_setting_has_key_value_default_unit_and_meaning() -> None:
    config = StoreConfig("/store", flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rows = {row.key: row for row in describe_settings(config, "/default")}

    assert list(rows) == list(MEANINGS)
    assert rows["storePathRootDir"][:3] == ("storePathRootDir", "/store", "/default")
    assert rows["flushDiskType"][1:4] == ("SYNC_FLUSH", "ASYNC_FLUSH", "")
    assert rows["syncFlushTimeout"][1:5] == (5000, 5000, "ms", "Maximum time that a put waits for its flush.")
    assert [row.key for row in rows.values() if row.differs_from_default] == ["storePathRootDir", "flushDiskType"]
    assert [row.key for row in rows.values() if row.own] == ["physicalMemoryBytes", "recoverWholeLog"]


def test_without_a_file_all_defaults_are_described_without_marks() -> None:
    result = run()

    assert result.exit_code == 0
    assert all(f" {key}=" in result.stdout for key in MEANINGS)
    assert "/home/mq/store" in result.stdout
    assert "(default" not in result.stdout
    assert "without use here" not in result.stdout


def test_changed_settings_are_marked_and_broker_keys_are_listed(conf: Path) -> None:
    result = run("--config", str(conf))
    marked = [line for line in result.stdout.splitlines() if "(default" in line]

    assert result.exit_code == 0
    assert len(marked) == 1
    assert "flushDiskType=SYNC_FLUSH (default ASYNC_FLUSH)" in marked[0]
    assert "brokerName │ [b]a" in result.stdout


def test_json_has_every_setting_as_a_plain_value(conf: Path, tmp_path: Path) -> None:
    out = tmp_path / "settings.json"
    result = run("--config", str(conf), "--json", str(out))
    fields = json.loads(out.read_text())

    assert (result.exit_code, result.stdout) == (0, "")
    assert fields["format"] == "tornlog-config/1"
    assert fields["others"] == {"brokerName": "[b]a"}
    assert [one["key"] for one in fields["settings"]] == list(MEANINGS)
    assert fields["settings"][5] == {
        "key": "enableConsumeQueueExt",
        "value": False,
        "default": False,
        "unit": "",
        "meaning": "Store data that does not fit into a queue entry in extension files.",
        "own": False,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\nflushDiskTyp=x", "line 2: key: expected a RocketMQ key, perhaps flushDiskType"), (b"\xff", "utf-8")],
)
def test_an_invalid_broker_conf_is_a_usage_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(content)
    result = run("--config", str(path))

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
