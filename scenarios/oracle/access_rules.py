"""Access rules: the oracle's model of a broker's plain_acl.yml, and of the requests that it must refuse (STATUS, META).

    request            refused without an access key, with an unknown key or a wrong signature, or if its code is for
                       administrators only
    topic and group    need the account's permission for the name, or else the account's default permission; an
                       administrator without permissions by name has all of them
    white list         clients at these addresses, for all accounts or for one, need no signature and no permission

    change by request  applies before its answer, and survives a crash after the answer
    change by hand     applies after the broker has read the file; until then the old or the new rules apply
    damaged file       changes no rule

The model shares no code with the store.
Source: RocketMQ PlainPermissionManager.validate, checkPerm, AclFileWatchService.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from .evidence import Violation, record_tried

_DEFAULTS = {"whiteRemoteAddress": "", "defaultTopicPerm": "DENY", "defaultGroupPerm": "DENY", "admin": "false"}


class AccessRequest(NamedTuple):
    """The fields of a request on which the permission check depends."""

    name: str
    access_key: str | None
    secret_key: str
    """The key of the signature."""
    is_of_admins: bool = False
    is_open: bool = False
    """Whether every client may send the request, even without a signature."""
    needs: tuple[tuple[str, str], ...] = ()
    """The needed permissions: pairs of `topic:NAME` or `group:NAME`, and PUB or SUB."""


@dataclass(frozen=True, slots=True)
class AccountRule:
    """One account of the file. `perms`: `topic:NAME` or `group:NAME` -> the permission, such as `PUB|SUB`."""

    secret_key: str
    admin: bool = False
    white: str = ""
    topic_default: str = "DENY"
    group_default: str = "DENY"
    perms: Mapping[str, str] = field(default_factory=dict)

    def allows(self, name: str, permission: str) -> bool:
        default = self.group_default if name.startswith("group:") else self.topic_default
        return permission in self.perms.get(name, default).split("|")


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The content of a plain_acl.yml. version: the counter in its dataVersion, which changes by requests raise."""

    white: tuple[str, ...]
    accounts: Mapping[str, AccountRule]
    version: int = 0

    def refuses(self, request: AccessRequest, host: str) -> bool:
        if request.is_open or any(_matches(each, host) for each in self.white):
            return False
        account = self.accounts.get(request.access_key or "")
        if account is None:
            return True
        if _matches(account.white, host):
            return False
        if account.secret_key != request.secret_key or (request.is_of_admins and not account.admin):
            return True
        has_all = account.admin and not account.perms
        return not has_all and not all(account.allows(*need) for need in request.needs)

    def text(self, *, is_short: bool = False, quote: str = "'", no_version: str = "") -> str:
        """Return the content in YAML.

        is_short: without members that have their default. quote: around texts. no_version: in place of version 0.
        """
        lines = ["globalWhiteRemoteAddresses:", *(f"- {quote}{each}{quote}" for each in self.white), "accounts:"]
        for key, each in self.accounts.items():
            members = {"accessKey": key, "secretKey": each.secret_key, "whiteRemoteAddress": each.white}
            members |= {"defaultTopicPerm": each.topic_default, "defaultGroupPerm": each.group_default}
            members["admin"] = str(each.admin).lower()
            shown = [(name, text) for name, text in members.items() if not is_short or text != _DEFAULTS.get(name)]
            rows = [f"{name}: {quote}{text}{quote}" for name, text in shown]
            for kind in ("topic", "group"):
                own = [name.partition(":")[2] + f" = {perm}" for name, perm in each.perms.items() if kind in name[:5]]
                rows += [f"{kind}Perms:", *(f"- {quote}{one}{quote}" for one in own)] if own or not is_short else []
            lines += [f"{'  ' if n else '- '}{row}" for n, row in enumerate(rows)]
        lines += ["dataVersion:", f"- counter: {self.version}"] if self.version else [no_version]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> "RuleSet":
        import yaml  # an optional extra, as for a broker

        root: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)) or {}
        versions = root.get("dataVersion")
        first = versions[0] if isinstance(versions, list) and versions else {}
        counter = first.get("counter", "") if isinstance(first, dict) else ""
        version = int(counter) if counter.isdecimal() else 0
        return cls.of_members(root.get("globalWhiteRemoteAddresses") or (), root.get("accounts") or [], version)

    @classmethod
    def of_members(cls, white: Sequence[str], accounts: Sequence[Mapping[str, Any]], version: int) -> "RuleSet":
        """accounts: the members of each account, as in the file or in an answer to an administrator."""
        rules = {}
        for each in accounts:
            listed = {
                f"{kind}:{name.strip()}": perm.strip()
                for kind in ("topic", "group")
                for name, _, perm in (one.partition("=") for one in each.get(f"{kind}Perms") or [])
            }
            topics, groups = (each.get(f"default{kind}Perm") or "DENY" for kind in ("Topic", "Group"))
            address, admin = each.get("whiteRemoteAddress") or "", each.get("admin") in (True, "true")
            rules[each["accessKey"]] = AccountRule(each["secretKey"], admin, address, topics, groups, listed)
        return cls(tuple(white), rules, version)


@lru_cache(maxsize=1_024)
def _matches(pattern: str, host: str) -> bool:
    """Return whether an IPv4 address matches a pattern, or one of several with commas between them.

    Each part of a pattern is a number, `*` or a range such as `1-9`. The last part may list alternatives, such as
    `{1,2}`. A pattern of IPv6 addresses matches only if it matches all addresses.
    """
    if not pattern.strip("*.:"):
        return bool(pattern)
    head, brace, tail = pattern.partition("{")
    if brace:
        return any(_matches(head + one.strip(), host) for one in tail.rstrip("}").split(","))
    if "," in pattern:
        return any(_matches(one.strip(), host) for one in pattern.split(","))
    if ":" in pattern:
        return False
    for part, number in zip(pattern.split("."), map(int, host.split(".")), strict=True):
        low, _, high = part.partition("-")
        if part != "*" and not int(low) <= number <= int(high or low):
            return False
    return True


@dataclass(slots=True)
class AccessModel:
    """The rules that one broker may apply. A user changes the file only while no other change is in progress."""

    host: str
    """The IP address of the checked clients."""
    current: RuleSet
    """The content of the file after the last complete change."""
    reload_ns_max: int
    """How long a broker may need to notice a change by hand, counted from the end of the last delay."""
    delayed_until_ns: Callable[[], int] = int
    """Returns when the last pause or slow operation of the run ends."""
    is_damaged: bool = False
    """Whether the file is invalid, or may be invalid after a crash."""
    changes: int = 0
    """The number of changes that have begun."""
    _previous: RuleSet | None = None
    """The content of the file before the last complete change."""
    _possible: list[RuleSet] = field(default_factory=list)
    """Rules that the broker may apply in place of the current ones."""
    _under_way: RuleSet | None = None
    _is_by_hand: bool = False
    _starts_left: int = 0
    """The number of starts of the broker in which it may still execute the request under way."""
    _changed_ns: int = -1 << 63
    """The time of the last change by hand."""

    @property
    def may_change(self) -> bool:
        return self._under_way is None and not self.is_damaged

    def is_under_way(self, rules: RuleSet) -> bool:
        return self._under_way is rules

    def begin_change(self, rules: RuleSet, *, by_hand: bool) -> None:
        assert self.may_change, "one change at a time"
        self._under_way, self._is_by_hand, self.changes = rules, by_hand, self.changes + 1
        # A request that waits for a broker to start may be executed by the next process.
        self._starts_left = 0 if by_hand else 2
        self._possible.append(rules)

    def end_change(self, now_ns: int) -> None:
        """Record that a change by hand is written, or that the request to change the file was answered SUCCESS.

        Without the answer SUCCESS, the broker may still execute the request.
        """
        assert self._under_way is not None, "a change has begun"
        if self._is_by_hand:
            self._possible.append(self.current)
            self._changed_ns = now_ns
        else:
            self._possible = []
        self._previous, self.current, self._under_way = self.current, self._under_way, None

    def cancel_change(self) -> None:
        """Record that the request to change the file was refused."""
        assert self._under_way is not None, "a change has begun"
        self._possible = [each for each in self._possible if each is not self._under_way]
        self._under_way = None

    def begin_damage(self, now_ns: int) -> None:
        """Record that the file is about to become invalid. No other task changes it until `end_damage`."""
        self._forget_old_rules(now_ns)
        self.is_damaged = True

    def end_damage(self, now_ns: int) -> None:
        """Record that the file is as before the damage. The broker may not have noticed a change before it."""
        self.is_damaged, self._changed_ns = False, now_ns

    def check_loaded(self, text: str) -> Iterator[Violation]:
        """META: yield a violation if a start finds neither the acknowledged rules nor those of a change in progress."""
        record_tried("META")
        found, allowed = RuleSet.parse(text), [self.current]
        if self._under_way is not None:
            allowed.append(self._under_way)
        if found not in allowed:
            summary = "plain_acl.yml is not as changed before the last stop"
            yield Violation("META", summary, "", -1, "accounts", str(allowed), str(found))
        self.current, self._possible = found, []
        self._starts_left -= 1
        if self._starts_left <= 0:
            self._under_way = None
        elif self._under_way is not None:
            self._possible = [self._under_way]

    def verdicts(self, request: AccessRequest, now_ns: int) -> set[bool]:
        """Return whether a request must be refused now; both answers if that is uncertain."""
        self._forget_old_rules(now_ns)
        return {rules.refuses(request, self.host) for rules in (self.current, *self._possible)}

    def _forget_old_rules(self, now_ns: int) -> None:
        due_ns = max(self._changed_ns, self.delayed_until_ns()) + self.reload_ns_max
        if now_ns > due_ns and self._under_way is None and not self.is_damaged:
            self._possible = []

    def may_have_old_rules(self, now_ns: int) -> bool:
        """Return whether the broker may still have the rules from before the last change by hand."""
        self._forget_old_rules(now_ns)
        return bool(self._possible)

    @property
    def files(self) -> list[RuleSet]:
        """The content that the file may have now, unless it is damaged."""
        return [self.current] if self._under_way is None else [self.current, self._under_way]

    def tells_last_change(self, request: AccessRequest) -> bool:
        """Return whether the last complete change of the file decides if a request is refused."""
        before = self._previous
        return before is not None and before.refuses(request, self.host) != self.current.refuses(request, self.host)


def check_access(request: AccessRequest, verdict: bool | None, answer: str, *, is_refused: bool) -> Iterator[Violation]:
    """STATUS: yield a violation if an answer contradicts the rules.

    verdict: whether the rules refuse the request; None if each answer is allowed. answer: its code and remark.
    """
    if verdict is None or verdict is is_refused:
        if verdict is not None:
            record_tried("STATUS")
        return
    needs = "".join(f", needs {permission} on {resource}" for resource, permission in request.needs)
    done, wanted = ("refused", "executed") if is_refused else ("executed", "refused")
    summary = f"{request.name} of {request.access_key} is {done}, contrary to the access rules{needs}"
    yield Violation("STATUS", summary, "", -1, "access", wanted, f"{done}: {answer}")


def check_content(found: object, allowed: Iterable[object], what: str) -> Iterator[Violation]:
    """META: yield an answer about the accounts that no content of the file during the request has."""
    record_tried("META")
    if found not in allowed:
        yield Violation("META", f"{what} differ from those of the file", "", -1, "accounts", str(allowed), str(found))
