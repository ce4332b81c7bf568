from pathlib import Path

import pytest

from tornlog.reports.pipeline.spark.options import absolute


def test_a_path_is_told_from_the_root_on_and_a_uri_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute("sweep") == f"{tmp_path}/sweep"
    assert absolute("/store/") == "/store"
    assert absolute("hdfs://name/store") == "hdfs://name/store"
