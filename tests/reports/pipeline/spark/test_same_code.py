from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import pytest

from tornlog import __version__
from tornlog.reports.pipeline.spark import engine
from tornlog.reports.pipeline.spark.engine import (
    ExecutorError,
    SameCodeFunction,
    own_code_version,
    raise_known_cause,
    require_same_code,
)


def code_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(engine, "files", lambda name: package)
    return own_code_version.__wrapped__()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in ("__init__.py", "store/__init__.py", "store/log.py", "tests/test_log.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    return tmp_path


def test_the_code_hash_changes_if_a_module_is_changed_added_moved_or_removed(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [code_of(package, monkeypatch)]
    for change in (
        lambda: (package / "store/log.py").write_text("# changed\n"),
        lambda: (package / "store/more.py").write_text(""),
        lambda: (package / "store/more.py").rename(package / "more.py"),
        lambda: (package / "store/log.py").unlink(),
    ):
        change()
        codes.append(code_of(package, monkeypatch))

    assert len(set(codes)) == 5
    assert all(code.startswith(f"tornlog {__version__} (") for code in codes)


def test_the_code_hash_ignores_files_that_a_wheel_does_not_have(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = code_of(package, monkeypatch)
    (package / "tests" / "test_log.py").write_text("# changed\n")
    (package / "README.md").write_text("changed\n")

    assert code_of(package, monkeypatch) == code


def test_the_code_hash_covers_all_modules_of_tornlog() -> None:
    sources = list(engine._module_sources(files("tornlog")))

    assert Path(engine.__file__ or "").read_bytes() in sources
    assert {b"__main__.py", b"kernel.py", b"message_store.py"} <= set(sources)
    assert Path(__file__).read_bytes() not in sources


def test_a_function_is_not_called_in_an_executor_with_other_code() -> None:
    assert SameCodeFunction(abs, own_code_version())(-1) == (own_code_version(), 1)
    assert SameCodeFunction(_must_not_be_called, "tornlog 0.0.9 (0)")(-1) == (own_code_version(), None)

    require_same_code(own_code_version(), own_code_version())
    with pytest.raises(ExecutorError, match=r"executors have tornlog 0\.0\.9 \(0\), the driver has tornlog"):
        require_same_code(own_code_version(), "tornlog 0.0.9 (0)")


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (("job aborted", "ModuleNotFoundError: No module named 'tornlog'", "at x"), "No module named 'tornlog'"),
        (("[PYTHON_VERSION_MISMATCH] Python in worker is 3.9.", "at x"), "Python in worker is 3.9."),
        (
            ('java.io.IOException: Cannot run program "./environment/bin/python": error=2', "at x"),
            'Cannot run program "./environment/bin/python": error=2',
        ),
    ],
)
def test_the_error_for_packages_that_executors_lack_names_them(report: Iterable[str], said: str) -> None:
    with pytest.raises(ExecutorError) as caught:
        raise_known_cause(RuntimeError("\n".join(report)))

    assert str(caught.value).startswith(f"executors could not start: {said}. Ship the missing")


def test_other_spark_errors_are_raised_unchanged() -> None:
    raise_known_cause(RuntimeError("bad operand type"))


def _must_not_be_called(item: int) -> int:
    raise AssertionError(item)
