"""Access control that reloads its file on change."""

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.store.broker.acl.plain_acl import AccessControl, PlainAclError
from tornlog.store.broker.acl.rules import AccessRules
from tornlog.store.real.world import real_world

ONE = "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n"
TWO = ONE + "- accessKey: another\n  secretKey: 12345678\n"


def replace_file(path: Path, text: str) -> None:
    """Replace the file atomically, so that a poll never reads half of it."""
    aside = path.with_suffix(".new")
    aside.write_text(text)
    aside.rename(path)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_changed_acl_file_is_reloaded_and_an_invalid_one_keeps_the_old_rules(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    replace_file(path, ONE)
    told: list[str] = []
    control = AccessControl(real_world(), str(path), told.append, interval_ms=10)
    control.start()
    try:
        assert list(control.rules.accounts) == ["RocketMQ"]
        replace_file(path, TWO)
        wait_until(lambda: list(control.rules.accounts) == ["RocketMQ", "another"])
        replace_file(path, TWO + "  admin: perhaps\n")
        wait_until(lambda: len(told) == 2)
        assert "line 6" in told[1]
        path.unlink()
        wait_until(lambda: len(told) == 3)
        assert list(control.rules.accounts) == ["RocketMQ", "another"]
        replace_file(path, ONE)
        wait_until(lambda: list(control.rules.accounts) == ["RocketMQ"])
    finally:
        control.shutdown()


@pytest.mark.parametrize("operation", ["status", "read"])
def test_a_read_error_is_logged_once_and_the_file_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "plain_acl.yml"
    replace_file(path, ONE)
    told: list[str] = []
    looks: list[str] = []

    def fail(_: object, path: str) -> None:
        looks.append(path)
        raise OSError(errno.EIO, "Input/output error")

    control = AccessControl(real_world(), str(path), told.append, interval_ms=10)
    control.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(type(control.world.files), operation, fail)
            replace_file(path, TWO)
            wait_until(lambda: len(looks) > 3)
        wait_until(lambda: list(control.rules.accounts) == ["RocketMQ", "another"])
    finally:
        control.shutdown()
    assert ["Input/output" in line for line in told] == [True, False]


@pytest.mark.parametrize("content", [b"accounts: [", b"\xff\xfe"])
def test_an_invalid_acl_file_at_the_start_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(content)

    with pytest.raises(PlainAclError):
        AccessControl(real_world(), str(path), lambda line: None)


def test_a_missing_acl_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AccessControl(real_world(), str(tmp_path / "none.yml"), lambda line: None)


def test_an_edit_that_a_crash_interrupted_is_undone_at_the_next_start(tmp_path: Path) -> None:
    """The crash came after the old version had become the backup, and before the new version had its name."""
    path = tmp_path / "plain_acl.yml"
    path.with_name("plain_acl.yml.bak").write_text(ONE)
    path.with_name("plain_acl.yml.tmp").write_text(TWO)
    control = AccessControl(real_world(), str(path), lambda line: None)
    assert list(control.rules.accounts) == ["RocketMQ"]
    assert path.read_text() == ONE


def test_a_reload_does_not_replace_the_rules_of_a_later_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plain_acl.yml"
    replace_file(path, ONE)
    control = AccessControl(real_world(), str(path), lambda line: None, interval_ms=0)
    edit = threading.Thread(target=control.edit_file, args=(lambda text: TWO,))
    read = control._read_rules

    def read_while_an_edit_begins() -> AccessRules:
        rules = read()
        edit.start()
        edit.join(0.2)
        return rules

    replace_file(path, ONE + "\n")
    monkeypatch.setattr(control, "_read_rules", read_while_an_edit_begins)
    control.run_once()
    edit.join()
    assert list(control.rules.accounts) == ["RocketMQ", "another"]
