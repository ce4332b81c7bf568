"""plain_acl.yml as a file."""

import sys

import pytest

from tornlog.store.broker.acl.plain_acl import PlainAclError, read_plain_acl

ACCOUNT = "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n"


@pytest.mark.parametrize("text", ["", "# nothing\n", "accounts:\n", "accounts: []\nglobalWhiteRemoteAddresses:\n"])
def test_an_empty_acl_file_denies_everyone(text: str) -> None:
    rules = read_plain_acl(text)

    assert rules.accounts == {}
    assert rules.global_white_remote_addresses == ()


def test_access_keys_of_digits_stay_strings() -> None:
    rules = read_plain_acl("accounts:\n- accessKey: 00012345\n  secretKey: 0x123456\n")

    assert rules.accounts["00012345"].secret_key == "0x123456"


def test_the_acl_version_written_by_tools_is_ignored() -> None:
    rules = read_plain_acl(ACCOUNT + "dataVersion:\n- counter: 1\n  timestamp: 1597560994233\n")

    assert list(rules.accounts) == ["RocketMQ"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("account:\n", 1, "'account'"),
        ("- a\n", 1, "sequence"),
        ("accounts: yes\n", 1, "a list"),
        ("accounts:\n- just a text\n", 2, "scalar"),
        (ACCOUNT + "  sekretKey: x\n", 4, "'sekretKey'"),
        (ACCOUNT + "  secretKey: 12345679\n", 4, "unique names"),
        ("accounts:\n- accessKey: RocketMQ\n", 2, "secretKey: expected 7"),
        ("accounts:\n- accessKey: short\n  secretKey: 12345678\n", 2, "accessKey: expected 7"),
        (ACCOUNT + "- accessKey: RocketMQ\n  secretKey: 12345678\n", 4, "a unique access key"),
        (ACCOUNT + "  admin: perhaps\n", 4, "true, false"),
        (ACCOUNT + "  defaultTopicPerm: ALL\n", 4, "PUB|SUB"),
        (ACCOUNT + "  topicPerms:\n  - topicA\n", 5, "'topicA'"),
        (ACCOUNT + "  topicPerms:\n  - topicA=PUB\n  - topicA=SUB\n", 6, "unique names"),
        (ACCOUNT + "  groupPerms:\n  - groupA=PUP\n", 5, "'groupA=PUP'"),
        (ACCOUNT + "  whiteRemoteAddress: 10.0.0\n", 4, "four parts"),
        ("globalWhiteRemoteAddresses:\n- 10.10.103.*\n- somewhere\n", 3, "'somewhere'"),
        ("accounts: [\n", 2, "YAML"),
        ("accounts:\n\t- accessKey: x\n", 2, "YAML"),
        ("accounts: \x00\n", 1, "YAML"),
        ("accounts: *nobody\n", 1, "YAML"),
    ],
)
def test_an_acl_error_names_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(PlainAclError) as refused:
        read_plain_acl(text)

    assert refused.value.line == line
    assert says in str(refused.value)


def test_no_secret_key_is_shown_in_an_error() -> None:
    with pytest.raises(PlainAclError) as refused:
        read_plain_acl("accounts:\n- accessKey: RocketMQ\n  secretKey: abcdef\n")

    assert "abcdef" not in str(refused.value)


def test_without_pyyaml_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[acl\]'"):
        read_plain_acl(ACCOUNT)
