"""Repositories of users: a new copy for each test, and commands in an environment with the wheel."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore = ["sample_repository"]

_SAMPLE = Path(__file__).with_name("sample_repository")
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a copy of the sample repository."""
    return Path(shutil.copytree(_SAMPLE, tmp_path / "shop"))


@pytest.fixture
def mend(repository: Path) -> Callable[[], None]:
    """Return a function that fixes the sample's bug, by a sync of the directory after a log is created."""

    def mend() -> None:
        module = repository / "store" / "wal.py"
        line = "        self._file = self._files.map(self._path, CAPACITY_BYTES)\n"
        text = module.read_text()
        assert line in text
        module.write_text(text.replace(line, f"{line}        self._files.sync_directory(self._directory)\n"))

    return mend


@pytest.fixture
def tests_of(tmp_path: Path, shell: Callable[..., Done]) -> Callable[..., Done]:
    """Return a function that writes a test module and runs pytest on it with options."""

    def run(text: str, options: str = "") -> Done:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        (project / "test_it.py").write_text(text)
        return shell(f"pytest -p no:cacheprovider -q --strict-markers {options}", project)

    return run
