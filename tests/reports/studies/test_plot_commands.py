import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.command_line import usage_error
from tornlog.reports.studies import latency, recovery, topics


@pytest.mark.parametrize("study", ["latency", "topics"])
def test_an_unknown_disk_of_a_study_is_a_usage_error(study: str, tmp_path: Path) -> None:
    assert "no disk floppy" in usage_error("plot", study, "--disk", "floppy", "--out", tmp_path)


@pytest.mark.parametrize("study", [latency, topics, recovery])
def test_a_study_without_matplotlib_names_the_package_to_install(
    study: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, f"{study.__name__}.pictures", raising=False)
    monkeypatch.delattr(study, "pictures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    assert ".[plot]" in usage_error("plot", study.__name__.rpartition(".")[2], "--out", tmp_path)
