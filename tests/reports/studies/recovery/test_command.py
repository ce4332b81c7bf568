import csv
import json
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.studies.recovery.timed import HEADER

MIB = 1 << 20


invoke = partial(tornlog, "plot", "recovery")


@pytest.mark.slow
def test_recovery_study_pictures_are_written_beside_their_data(tmp_path: Path) -> None:
    document = tmp_path / "found.json"
    result = invoke(
        *("--log-bytes", 16 * MIB, "--log-bytes", 48 * MIB, "--turns", 1),
        *("--dir", tmp_path, "--out", tmp_path / "out", "--json", document),
    )
    assert result.exit_code == 0, result.output
    with (tmp_path / "out" / "recovery.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = json.loads(document.read_text())

    assert {path.name for path in tmp_path.iterdir()} == {"found.json", "out"}  # the stores are gone
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"recovery.{kind}" for kind in ("png", "svg", "csv")
    }
    assert tuple(rows[0]) == HEADER
    assert [(row["exit"], row["recover_whole_log"]) for row in rows[:4]] == [
        ("crash", "True"),
        ("crash", "False"),
        ("clean", "True"),
        ("clean", "False"),
    ]
    for row in rows:
        assert float(row["total_s"]) > 0
        assert 0 < int(row["scanned_bytes"]) <= int(row["log_bytes"])
        assert float(row["cold_read_hdd_s"]) > float(row["cold_read_nvme_ssd_s"]) > 0
        if row["recover_whole_log"] == "True":
            assert row["scanned_bytes"] == row["log_bytes"]
    assert found["format"] == "tornlog-recovery/1"
    assert [row["total_s"] for row in found["rows"]] == [float(row["total_s"]) for row in rows]
    assert "crash" in result.output
