import errno
from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import set_uid

from tornlog.store.errors import CorruptFileError
from tornlog.store.real.files import RealFiles
from tornlog.store.side_file import SideFile

PATH = "/store/config/consumerOffset.json"
OLD, NEW = b"<old>", b"<new>"


def parse(raw: bytes, file: str) -> bytes:
    """Parse `<text>`; any other form is damage."""
    if not (raw.startswith(b"<") and raw.endswith(b">")):
        raise CorruptFileError(file, 0, "text", "<...>", raw.hex())
    return raw


def loaded() -> bytes | None:
    return SideFile(RealFiles(), PATH).load(parse)


@pytest.fixture
def side(fs: FakeFilesystem) -> SideFile:
    """A side file whose old version exists and is durable."""
    fs.create_dir("/store")
    side = SideFile(RealFiles(), PATH)
    assert side.store(OLD)
    return side


def test_a_failed_store_on_a_full_disk_keeps_the_old_version(fs: FakeFilesystem, side: SideFile) -> None:
    fs.set_disk_usage(fs.get_disk_usage().used + 3)
    with pytest.raises(OSError, match="No space") as raised:
        side.store(NEW)
    assert raised.value.errno == errno.ENOSPC
    assert Path(PATH).read_bytes() == OLD
    fs.set_disk_usage(1 << 20)  # pyfakefs allows no removal on a full disk
    assert loaded() == OLD


def test_a_version_refused_by_a_full_disk_can_be_stored_once_there_is_space(fs: FakeFilesystem, side: SideFile) -> None:
    fs.set_disk_usage(fs.get_disk_usage().used + 3)
    with pytest.raises(OSError, match="No space"):
        side.store(NEW)
    fs.set_disk_usage(1 << 20)
    assert side.store(NEW)
    assert loaded() == NEW
    assert not side.store(NEW)  # it is stored already


@pytest.mark.usefixtures("fs")
def test_a_store_without_write_permission_keeps_the_old_version(side: SideFile) -> None:
    Path(PATH).parent.chmod(0o500)
    set_uid(1000)
    with pytest.raises(PermissionError) as raised:
        side.store(NEW)
    set_uid(0)
    assert raised.value.filename in (side.temporary_path, "/store/config")  # pyfakefs names the directory
    assert loaded() == OLD


def test_a_side_file_without_read_permission_is_an_error_and_not_missing(side: SideFile) -> None:
    assert side.store(NEW)
    Path(PATH).chmod(0)
    Path(side.backup_path).chmod(0)
    set_uid(1000)
    with pytest.raises(PermissionError) as raised:
        loaded()
    set_uid(0)
    assert raised.value.filename == PATH


def test_loading_from_a_missing_directory_returns_none(fs: FakeFilesystem) -> None:
    assert loaded() is None
    assert not fs.exists("/store")


def test_a_temporary_file_left_by_a_crash_is_ignored(side: SideFile) -> None:
    Path(side.temporary_path).write_bytes(NEW)
    assert loaded() == OLD
    assert not Path(side.temporary_path).exists()


def test_a_side_file_with_a_relative_name_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    side = SideFile(RealFiles(), "plain_acl.yml")
    (tmp_path / "plain_acl.yml").write_bytes(OLD)
    assert side.load(parse) == OLD
    assert side.store(NEW)
    assert (tmp_path / "plain_acl.yml").read_bytes() == NEW
    assert (tmp_path / "plain_acl.yml.bak").read_bytes() == OLD
