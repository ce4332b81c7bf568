import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import set_uid

from tornlog import __main__ as program
from tornlog.reports.cli.directories import ConfigOptions, show_config
from tornlog.reports.cli.options import open_lines, write_json
from tornlog.reports.cli.reporting import read_failure, write_failures
from tornlog.scenarios.campaigns.failures.failure import Failure


@pytest.fixture
def places(failure: Failure, fs: FakeFilesystem) -> Iterator[FakeFilesystem]:
    """Make the process an ordinary user, with directories that only root may use."""
    fs.create_dir("/read-only")
    Path("/read-only").chmod(0o500)
    fs.create_file("/secret.conf", contents="brokerRole=SYNC_MASTER\n")
    fs.create_file("/secret.json", contents=failure.to_json())
    for name in ("/secret.conf", "/secret.json"):
        Path(name).chmod(0)
    set_uid(1000)
    yield fs
    set_uid(0)


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("place", ["/read-only/result.json", "/read-only/new/result.json", "/read-only"])
def test_an_unwritable_result_path_is_a_usage_error_that_names_the_path(place: str) -> None:
    with pytest.raises(typer.BadParameter, match=place):
        write_json(place, {"a": 1})
    with pytest.raises(typer.BadParameter, match=place), open_lines(place):
        pass


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("file", ["/secret.json", "/nowhere.json", "/read-only"])
def test_an_unreadable_failure_file_is_a_usage_error_that_names_the_file(file: str) -> None:
    with pytest.raises(typer.BadParameter, match=file):
        read_failure(Path(file))


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("file", ["/secret.conf", "/nowhere.conf", "/read-only"])
def test_an_unreadable_configuration_is_a_usage_error(file: str) -> None:
    with pytest.raises(typer.BadParameter, match=file):
        show_config(ConfigOptions(Path(file)))


@pytest.mark.usefixtures("places")
def test_a_user_with_permission_can_read_the_same_files(failure: Failure, capsys: pytest.CaptureFixture[str]) -> None:
    set_uid(0)
    show_config(ConfigOptions(Path("/secret.conf")))

    assert "SYNC_MASTER" in capsys.readouterr().out
    assert read_failure(Path("/secret.json")) == failure


def test_missing_directories_for_failures_are_created(failure: Failure, fs: FakeFilesystem) -> None:
    (path,) = write_failures([failure, failure], Path("/new/out")).values()

    assert path == Path(f"/new/out/failures/{failure.signature}.json")
    assert read_failure(path) == failure


def test_writing_a_failure_to_a_read_only_directory_raises_an_error(failure: Failure, places: FakeFilesystem) -> None:
    with pytest.raises(PermissionError):
        write_failures([failure], Path("/read-only"))


def test_writing_a_failure_to_a_full_disk_raises_an_error(failure: Failure, fs: FakeFilesystem) -> None:
    fs.set_disk_usage(fs.get_disk_usage().used + 100)
    with pytest.raises(OSError, match="No space left"):
        write_failures([failure], Path("/out"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_directory_without_permission_is_reported_in_one_line(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise OSError(number, "refused", "out/failures/x.json")

    monkeypatch.setattr(program, "application", lambda: run)
    with pytest.raises(SystemExit) as ended:
        program.main()

    assert ended.value.code == 3
    assert capsys.readouterr().err == f"tornlog: [Errno {number}] refused: 'out/failures/x.json'\n"


def test_an_unexpected_error_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise OSError(errno.EBADF, "a mistake of ours")

    monkeypatch.setattr(program, "application", lambda: run)
    with pytest.raises(SystemExit) as ended:
        program.main()

    assert ended.value.code == 3
    assert "Traceback" in capsys.readouterr().err
