"""Access rules: the text of a violation; patterns and files as in the broker."""

import pytest

from tornlog.scenarios.oracle.access_rules import AccessRequest, AccountRule, RuleSet, check_access
from tornlog.scenarios.runs.broker.access_file import _DAMAGES, ADMIN, HOST, OTHERS, WHITE, WRONG_WHITE
from tornlog.store.broker.acl.plain_acl import PlainAclError, read_plain_acl
from tornlog.store.broker.acl.rules import (
    PERMISSIONS,
    AddressPatternError,
    Permission,
    address_parts,
    parse_address_pattern,
)


def test_a_wrong_refusal_has_the_needed_permissions_and_the_answer() -> None:
    request = AccessRequest("a send", "account-3", "secret", needs=(("topic:T0", "PUB"),))
    (violation,) = check_access(request, False, "SYSTEM_ERROR, No acl config for account-3", is_refused=True)

    assert violation.summary == "a send of account-3 is refused, contrary to the access rules, needs PUB on topic:T0"
    assert (violation.expected, violation.found) == ("executed", "refused: SYSTEM_ERROR, No acl config for account-3")
    assert list(check_access(request, True, "SYSTEM_ERROR", is_refused=True)) == []
    assert list(check_access(request, None, "SUCCESS", is_refused=False)) == []


@pytest.mark.parametrize("pattern", WHITE)
def test_a_pattern_matches_as_in_the_broker(pattern: str) -> None:
    for host in ("10.0.0.15", "10.0.0.149", HOST, "10.0.0.151", "10.0.1.7", "10.9.0.1", "127.0.0.1"):
        refuses = RuleSet((pattern,), {}).refuses(AccessRequest("a pull", None, ""), host)
        assert refuses is not parse_address_pattern(pattern).matches(address_parts(host)), host


@pytest.mark.parametrize("pattern", WRONG_WHITE)
def test_a_wrong_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(AddressPatternError):
        parse_address_pattern(pattern)


@pytest.mark.parametrize("is_short", [False, True])
def test_all_layouts_of_the_file_have_the_same_rules(is_short: bool) -> None:
    account = AccountRule("secret-1", True, "10.0.0.{1,150}", "SUB", perms={"topic:T0": "DENY", "group:g": "SUB|PUB"})
    rules = RuleSet((OTHERS, "*"), {ADMIN: AccountRule("secret-2", True), "0012345": account}, 7)
    text = rules.text(is_short=is_short, quote="'" if is_short else '"')

    assert RuleSet.parse(text) == rules
    assert read_plain_acl(text).accounts["0012345"].perms == {"T0": Permission.DENY, "%RETRY%g": PERMISSIONS["PUB|SUB"]}
    for damage in filter(None, _DAMAGES):
        if (damaged := damage(text.encode())) != text.encode():
            with pytest.raises((PlainAclError, UnicodeDecodeError)):
                read_plain_acl(damaged.decode())
