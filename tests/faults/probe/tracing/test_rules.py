"""Rules of aimed faults and crashes: each word is parsed, or refused with its place."""

import pytest

from tornlog.faults.kinds import FaultKind
from tornlog.faults.probe.tracing.control import ALL_CALLS, CallFault, CrashRule, RuleError, glob_matches, parse_rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("failed-sync", CallFault(FaultKind.FAILED_SYNC, 1)),
        ("failed-sync wal*.log #3", CallFault(FaultKind.FAILED_SYNC, 3, "wal*.log")),
        ("failed-write 'two words' #*", CallFault(FaultKind.FAILED_WRITE, ALL_CALLS, "two words")),
        ("torn-write *.db 2/5", CallFault(FaultKind.FAILED_WRITE, 1, "*.db", (2, 5))),
        ("torn-write #2", CallFault(FaultKind.FAILED_WRITE, 2, "*", (1, 2))),
        ("short-write 1/3", CallFault(FaultKind.SHORT_WRITE, 1, "*", (1, 3))),
        ("disk-full after 1MiB", CallFault(FaultKind.DISK_FULL, ALL_CALLS, after_bytes=1 << 20)),
        ("disk-full after 100", CallFault(FaultKind.DISK_FULL, ALL_CALLS, after_bytes=100)),
        ("cut at rename MANIFEST*", CrashRule("rename", "MANIFEST*", 1, "")),
        ("cut at mark", CrashRule("mark", "*", ALL_CALLS, "")),
        ("cut at sync-directory #*", CrashRule("sync-directory", "*", ALL_CALLS, "")),
    ],
)
def test_a_rule_is_parsed(text: str, rule: CallFault | CrashRule) -> None:
    assert parse_rule(f" {text} ") == rule._replace(text=text)
    assert str(parse_rule(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "word 1: expected a fault or cut, found the end"),
        ("fire log", "word 1: expected cut or one of failed-write, disk-full"),
        ("failed-sync wal #0", "word 3: expected #N, such as #3, or #* for all calls, found #0"),
        ("failed-sync wal 3", "word 3: expected #N, such as #3, or #* for all calls, found 3"),
        ("failed-sync wal #3 #4", "word 4: expected the end of the rule, found #4"),
        ("failed-sync wal 2/5", "word 3: expected #N, because only torn-write and short-write have a part, found 2/5"),
        ("torn-write wal 5/5", "word 3: expected a part between 0 and 1, such as 2/5, found 5/5"),
        ("disk-full after", "word 3: expected a size, such as 64KiB or 1MiB, found the end"),
        ("disk-full after 1MB", "word 3: expected a size, such as 64KiB or 1MiB, found 1MB"),
        ("disk-full after 1MiB #2", "word 4: expected the end of the rule, found #2"),
        ("cut rename", "word 2: expected at, found rename"),
        ("cut at mark #1", "word 4: expected the end of the rule, found #1"),
        ("cut at renme log", "word 3: expected mark, a system call or one of acknowledge, allocate"),
        ("failed-sync 'wal", "expected a closing quote, found none"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(RuleError) as refused:
        parse_rule(text)
    assert str(refused.value).startswith(f"rule {text!r}: {message}")


def test_a_glob_without_a_slash_matches_the_name_in_any_directory() -> None:
    assert glob_matches("wal*", "/files/deep/wal1")
    assert glob_matches("deep/*", "/files/deep/wal1")
    assert not glob_matches("deep/*", "/files/other/wal1")
    assert not glob_matches("wal*", "/files/wal/data")
