"""Access rules: a violation has the needed permissions, and the code and remark of the answer."""

from tornlog.scenarios.oracle.access_rules import AccessRequest, check_access


def test_a_wrong_refusal_has_the_needed_permissions_and_the_answer() -> None:
    request = AccessRequest("a send", "account-3", "secret", needs=(("topic:T0", "PUB"),))
    (violation,) = check_access(request, False, "SYSTEM_ERROR, No acl config for account-3", is_refused=True)

    assert violation.summary == "a send of account-3 is refused, contrary to the access rules, needs PUB on topic:T0"
    assert (violation.expected, violation.found) == ("executed", "refused: SYSTEM_ERROR, No acl config for account-3")
    assert list(check_access(request, True, "SYSTEM_ERROR", is_refused=True)) == []
    assert list(check_access(request, None, "SUCCESS", is_refused=False)) == []
