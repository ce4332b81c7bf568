"""Access client: sends requests of several accounts, signed well or badly, and changes accounts as an administrator.

The client compares each answer with the model of the access rules. A refused send must store no message, a refused
change of a topic must not change the table, and a refused offset must not be committed.
Source: RocketMQ AclClientRPCHook, AclSigner.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

import msgspec

from ....store.broker.processors.query import UNIQUE_KEY_QUERY
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import TRACE_TOPIC
from ....store.formats.host import Host
from ....store.formats.messages import PutMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import encode_frame
from ...oracle.access_rules import AccessModel, AccessRequest, AccountRule, RuleSet, check_access, check_content
from ...oracle.evidence import Violation
from ...oracle.operator_tables import topic_settings
from ...oracle.put_entry import PLAIN
from ...oracle.reader import in_java_map_order
from ...oracle.returned import SendBackRequest
from ...workload.drawing import Draft, DrawnMessage
from .access_file import ACCESS_NET, ACCOUNTS, ADMIN, GROUP, OTHERS, WHITE, WRONG_WHITE, draw_account, draw_white
from .answers import note_answer
from .broker_user import BrokerUser, Reply, UserContext
from .commands import (
    consumer_heartbeat,
    make_request,
    max_offset_command,
    member_list_command,
    pull_command,
    query_offset_command,
    route_command,
    send_back_command,
    send_command,
    topic_command,
    unregister_command,
    update_offset_command,
    with_words,
)
from .message_options import EVERYTHING
from .refused_requests import BEYOND, RefusedRequest, check_refused, timed_batch, timed_send

T = TypeVar("T")
Needs = tuple[tuple[str, str], ...]
"""As `AccessRequest.needs`."""
_PAUSES_MS = (5, 100, 500, 1_000)
_TOPIC = "accounts-0"
_BAD_SIGNATURE_CHANCE, _EDIT_CHANCE, _TELLING_CHANCE, _WRONG_CHANCE = 0.15, 0.3, 0.7, 0.2
_PERMITTED_CHANCE = 0.3
_MISSING = "nobody-1"
_ADDED: tuple[dict[str, str], ...] = ({}, {}, {"SecurityToken": "token"}, {"Zone": "", "zone": "\u00e9"})
"""Further fields, which a signature covers too."""
_ADMIN_CODES = (
    *(RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, RequestCode.UPDATE_AND_CREATE_TOPIC),
    *(RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    *(RequestCode.DELETE_SUBSCRIPTIONGROUP, RequestCode.CLONE_GROUP_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET),
)
"""Requests of administrators. Without fields they change nothing."""
_WRONG_EDITS: tuple[dict[str, str], ...] = (
    *({"secretKey": "secret"}, {"accessKey": "nobody"}, {"defaultTopicPerm": "ALL"}, {"defaultGroupPerm": "PUB,SUB"}),
    *({"topicPerms": text} for text in ("T0", "=PUB", "T0=ALL", "T0=PUB,T0=SUB")),
    {"groupPerms": f"{GROUP}=SUB,%RETRY%{GROUP}=SUB"},
    *({"whiteRemoteAddress": each} for each in WRONG_WHITE),
)
_FAILED = tuple(code for code in ResponseCode if code.name.endswith("_CONFIG_FAILED"))
_PERM_TEXTS = (6, 4, 2)
_DENIED = "org.apache.rocketmq.acl.common.AclException"
_OFFSETS_FROM = 1_000_000
"""Offsets after this one are only in requests that must be refused. Queues of runs are shorter."""


class AccessClient(BrokerUser):
    """Sends one request after another."""

    def __init__(self, run: UserContext) -> None:
        super().__init__(run, "accounts", ACCESS_NET)
        self._sent, self._refused_offset = 0, _OFFSETS_FROM
        self._acts: list[Callable[[str], None]] = [self._send, self._send, self._ask_anything, self._change_topic]
        self._acts += [self._ask_anything, self._commit_offset, self._read_topics, self._read_accounts]
        for account in run.accounts.values():
            topics = account.tables.topics
            topics.record_success(_TOPIC, topics.record_request(_TOPIC, None), 0)
        self.machine.switch_on()

    def begin(self) -> None:
        self.routes.encode = encode_frame
        self.world.tasks.spawn("use accounts", self._use_accounts)

    def _use_accounts(self) -> None:
        while True:
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            broker = self.stream.choice(sorted(self.run.accounts), "broker")
            if self.stream.chance(_EDIT_CHANCE, "edits"):
                (self._edit_wrongly if self.stream.chance(_WRONG_CHANCE, "wrongly") else self._edit_rules)(broker)
            else:
                self.stream.choice(self._acts, "request")(broker)

    def _model(self, broker: str) -> AccessModel:
        model = self.run.accounts[broker].access
        assert model is not None, "there are accounts"
        return model

    # -- signed requests ---------------------------------------------------------------------------

    def _draw_access(self, broker: str, name: str, *needs: tuple[str, str], admin: bool = False) -> AccessRequest:
        """Choose an account, often one that the last change concerns, and whether its signature is right."""
        found = self._possible_accesses(broker, name, needs, admin)
        if self.stream.chance(_TELLING_CHANCE, "asks about the last change"):
            telling = [each for each in found if self._model(broker).tells_last_change(each)]
            if telling:
                return self.stream.choice(telling, "account of the last change")
        access = self.stream.choice(found, "account")
        is_bad = self.stream.chance(_BAD_SIGNATURE_CHANCE, "signs badly")
        key = self.stream.choice(("", f"{access.secret_key}x"), "bad key") if is_bad else access.secret_key
        return access._replace(secret_key=key)

    def _possible_accesses(self, broker: str, name: str, needs: Needs, admin: bool) -> list[AccessRequest]:
        accounts = self._model(broker).current.accounts
        keys = (*ACCOUNTS, ADMIN, _MISSING, None)
        rules = [accounts.get(key or "") for key in keys]
        secrets = ["another-secret" if rule is None else rule.secret_key for rule in rules]
        pairs = zip(keys, secrets, strict=True)
        return [AccessRequest(name, key, secret, is_of_admins=admin, needs=needs) for key, secret in pairs]

    def _draw_by_needs(self, broker: str, options: Sequence[T], needs_of: Callable[[T], Needs], label: str) -> T:
        """Choose one of several requests, often one that the last change concerns."""
        tells, telling = self._model(broker).tells_last_change, []
        if self.stream.chance(_TELLING_CHANCE, f"{label} of the last change"):
            possible = [(each, self._possible_accesses(broker, "", needs_of(each), False)) for each in options]
            telling = [each for each, accesses in possible if any(map(tells, accesses))]
        return self.stream.choice(telling or options, label)

    def _ask_signed(self, broker: str, access: AccessRequest, command: RemotingCommand) -> Reply | None:
        """Send a request, and check whether it is refused."""
        model, account = self._model(broker), self.run.accounts[broker]
        before, changes = model.verdicts(access, self.now_ns), model.changes
        command = replace(command, ext_fields={**command.ext_fields, **self.stream.choice(_ADDED, "further fields")})
        is_unsigned = UNIQUE_KEY_QUERY in command.ext_fields and self.stream.chance(0.5, "leaves a field unsigned")
        reply = self.ask(broker, _signed(command, access, UNIQUE_KEY_QUERY if is_unsigned else ""))
        verdicts = before | model.verdicts(access, self.now_ns)
        verdict = verdicts.pop() if len(verdicts) == 1 and model.changes <= changes + 1 else None
        # A busy broker answers before it looks at the account.
        if reply is not None and reply.is_of_this_life and reply.response.code != ResponseCode.SYSTEM_BUSY:
            self.run.report(check_access(access, verdict, reply.text, is_refused=_is_refused(reply)))
            account.hits["access refused"] += _is_refused(reply)
        return reply

    def _ask_anything(self, broker: str) -> None:
        stream = self.stream
        topic = stream.choice(self.run.topics, "topic")
        of_topic, of_group = (f"topic:{topic}", "SUB"), (f"group:{GROUP}", "SUB")
        pull = pull_command(topic, 0, 0, EVERYTHING, most=1, suspend_ms=0, group=GROUP)
        returned = send_back_command(topic, BEYOND, SendBackRequest(GROUP, 1, 0))
        query = make_request(RequestCode.QUERY_MESSAGE, topic=topic, key="", maxNum=1, beginTimestamp=0, endTimestamp=0)
        timed = timed_send(topic)  # stores nothing
        unique = replace(query, ext_fields={**query.ext_fields, UNIQUE_KEY_QUERY: "true"})
        requests: list[tuple[RemotingCommand, Needs]] = [
            (pull, (of_topic, of_group)),
            (_without_field(pull, "topic"), (of_group,)),
            (_without_field(pull, "consumerGroup"), (of_topic,)),
            (query, (of_topic,)),
            (unique, (of_topic,)),
            (returned, (of_group,)),
            (unregister_command(self.client_id, GROUP), (of_group,)),
            (consumer_heartbeat(self.client_id, [topic], EVERYTHING, GROUP), (of_group, of_topic)),
            (member_list_command(GROUP), (of_group,)),
            (member_list_command(f"%RETRY%{GROUP}"), (of_group,)),
            (max_offset_command(topic, 0), ()),
            (query_offset_command(topic, 0, GROUP), ()),
            (route_command(topic), ()),
            (make_request(stream.choice(_ADMIN_CODES, "request of an administrator")), ()),
            *((each, ((f"topic:{topic}", "PUB"),)) for each in (timed, with_words(timed), timed_batch(topic))),
            *((timed_batch(f"%RETRY%{GROUP}"), (of_group,)),) * 3,
            (timed_send(TRACE_TOPIC), ()),
        ]
        command, needs = self._draw_by_needs(broker, requests, itemgetter(1), "what")
        is_of_admins = command.code in _ADMIN_CODES
        access = self._draw_access(broker, RequestCode(command.code).name, *needs, admin=is_of_admins)
        is_open = command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        self._ask_signed(broker, access._replace(is_open=is_open), command)

    # -- requests with effects ---------------------------------------------------------------------

    def _send(self, broker: str) -> None:
        """Send a message. After a refusal the message must not be in the log."""
        if self.insists:  # consumers must catch up
            return
        account = self.run.accounts[broker]
        topic = self._draw_by_needs(broker, self.run.topics, lambda topic: ((f"topic:{topic}", "PUB"),), "topic")
        self._sent += 1
        name = f"account-{self._sent}"
        address = self.routes.broker_for_offsets(broker, topic)
        if address is None:
            return
        hosts = Host.of_address(f"{self.machine.host}:0"), Host.of_address(address.address)
        given = PLAIN._replace(born_host=hosts[0], store_host=hosts[1])
        message = DrawnMessage(name, "", "", [], given, body=name.encode())
        draft = Draft(topic, 0, True, given, True, [message])
        named = in_java_map_order({"KEYS": f"{name:<10}", "CLUSTER": "DefaultCluster"})
        put = draft.put(message, name, named, self.now_ns, 0, given)
        put.knows_port, put.over_in = False, None
        account.ledger.record_request(put)
        asked_in = account.ledger.life
        access = self._draw_access(broker, "a send", (f"topic:{topic}", "PUB"))
        try:
            reply = self._ask_signed(broker, access, send_command(draft, [put], self.plan.queues_per_topic))
        finally:
            put.over_in = account.ledger.life
        if reply is None:
            return
        if _is_refused(reply):
            put.status = PutMessageStatus.MESSAGE_ILLEGAL
            return
        now_ns = reply.answered_ns
        self.run.report(note_answer(account, [put], reply.response, None, asked_in=asked_in, now_ns=now_ns))

    def _change_topic(self, broker: str) -> None:
        """Change a topic. The table must keep its settings if the request is refused."""
        table = self.run.accounts[broker].tables.topics
        perm = self.stream.choice(_PERM_TEXTS, "perm")
        access = self._draw_access(broker, "a change of a topic", admin=True)
        change = table.record_request(_TOPIC, (1, 1, perm, False, 0, "SINGLE_TAG"))
        reply = self._ask_signed(broker, access, topic_command(_TOPIC, perm=perm))
        if reply is not None and _is_refused(reply):
            table.record_refusal(_TOPIC, change)
        elif reply is not None and reply.is_success and reply.is_of_this_life:
            table.record_success(_TOPIC, change, reply.answered_ns)
        else:
            change.is_given_up = True

    def _read_topics(self, broker: str) -> None:
        access = self._draw_access(broker, "a look at topics")
        reply = self._ask_signed(broker, access, RemotingCommand(RequestCode.GET_ALL_TOPIC_CONFIG, 0))
        if reply is None or not reply.is_success or not reply.is_of_this_life:
            return
        body = msgspec.json.decode(reply.response.body)
        found = {name: topic_settings(entry) for name, entry in body["topicConfigTable"].items()}
        table = self.run.accounts[broker].tables.topics
        self.run.report(table.check_answer(found, body["dataVersion"]["counter"], reply.asked_ns))

    def _commit_offset(self, broker: str) -> None:
        """Commit an offset if that must be refused, and check that it is not committed."""
        topic = self.stream.choice(self.run.topics, "topic")
        self._refused_offset += 1
        needs = (f"topic:{topic}", "SUB"), (f"group:{GROUP}", "SUB")
        access = self._draw_access(broker, "a commit", *needs)
        if self._model(broker).verdicts(access, self.now_ns) != {True}:
            return
        refused = self._ask_signed(broker, access, update_offset_command(topic, 0, self._refused_offset, GROUP))
        looks = self._draw_access(broker, "a look at an offset")
        reply = self._ask_signed(broker, looks, query_offset_command(topic, 0, GROUP))
        if refused is None or not _is_refused(refused) or reply is None or not reply.is_success:
            return
        if reply.field("offset") == self._refused_offset:
            summary, found = f"a refused offset of {access.access_key} is committed", str(self._refused_offset)
            self.run.report([Violation("STATUS", summary, "", -1, "offset", "another", found)])

    def _read_accounts(self, broker: str) -> None:
        """Compare the accounts or the version of the file in an answer with the model."""
        model = self._model(broker)
        all_accounts = self.stream.chance(0.5, "all accounts")
        code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG if all_accounts else RequestCode.GET_BROKER_CLUSTER_ACL_INFO
        access, before, changes = self._draw_access(broker, code.name, admin=all_accounts), model.files, model.changes
        reply = self._ask_signed(broker, access, make_request(code))
        if reply is None or not reply.is_success or not reply.is_of_this_life or model.changes > changes + 1:
            return
        allowed = [*before, *model.files]
        if all_accounts:
            body = msgspec.json.decode(reply.response.body)
            found = RuleSet.of_members(body["globalWhiteAddrs"], body["plainAccessConfigs"], 0)
            self.run.report(check_content(found, [replace(each, version=0) for each in allowed], "accounts"))
        else:
            version = msgspec.json.decode(reply.response.ext_fields["version"])["counter"]
            self.run.report(check_content(version, [each.version for each in allowed], "versions"))

    # -- changes of accounts -----------------------------------------------------------------------

    def _edit_rules(self, broker: str) -> None:
        """Change, create or delete an account, or change the white list, with any account."""
        model, stream = self._model(broker), self.stream
        key = stream.choice(ACCOUNTS, "account to change")
        rules, command = self._draw_edit(model.current, key)
        rules = replace(rules, version=rules.version + 1)
        access = self._draw_editor(broker, command, _PERMITTED_CHANCE)
        verdicts = model.verdicts(access, self.now_ns)
        if not model.may_change or len(verdicts) > 1:
            return
        if model.may_have_old_rules(self.now_ns) and not stream.chance(_EDIT_CHANCE, "hides a change by hand"):
            return
        model.begin_change(rules, by_hand=False)
        reply = self.ask(broker, _signed(command, access))
        if reply is None or not model.is_under_way(rules):
            return
        if reply.is_of_this_life and reply.response.code != ResponseCode.SYSTEM_BUSY:
            self.run.report(check_access(access, verdicts.pop(), reply.text, is_refused=_is_refused(reply)))
        if reply.is_success:
            model.end_change(reply.answered_ns)
            self.run.accounts[broker].hits["account changed"] += 1
        elif _is_refused(reply):
            model.cancel_change()

    def _draw_editor(self, broker: str, command: RemotingCommand, permitted_chance: float) -> AccessRequest:
        """Choose an account for a request of administrators. permitted_chance: of one that the rules do not refuse."""
        name, model = RequestCode(command.code).name, self._model(broker)
        possible = self._possible_accesses(broker, name, (), admin=True)
        allowed = [each for each in possible if not model.current.refuses(each, model.host)]
        if allowed and self.stream.chance(permitted_chance, "is permitted"):
            return self.stream.choice(allowed, "who may")
        return self._draw_access(broker, name, admin=True)

    def _draw_edit(self, rules: RuleSet, key: str) -> tuple[RuleSet, RemotingCommand]:
        stream, old = self.stream, rules.accounts.get(key)
        if old is not None and stream.chance(0.3, "deletes"):
            others = {name: each for name, each in rules.accounts.items() if name != key}
            return replace(rules, accounts=others), make_request(RequestCode.DELETE_ACL_CONFIG, accessKey=key)
        if stream.chance(0.35, "changes the white list"):
            white = draw_white(stream, [each for each in WHITE if "," not in each])
            code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
            return replace(rules, white=white), make_request(code, globalWhiteAddrs=",".join(white))
        given = draw_account(stream, self.plan.topics)
        new = _merged(old, given)
        fields = {"accessKey": key, "secretKey": new.secret_key, "admin": str(new.admin).lower()}
        if old is not None and stream.chance(0.2, "keeps whether it is an admin"):
            new = replace(new, admin=old.admin)
            del fields["admin"]
        fields |= {"whiteRemoteAddress": given.white} if given.white else {}
        fields |= {"defaultTopicPerm": new.topic_default, "defaultGroupPerm": new.group_default}
        for kind in ("topic", "group"):
            listed = [f"{name[6:]}={perm}" for name, perm in given.perms.items() if name.startswith(kind)]
            fields |= {f"{kind}Perms": ",".join(listed)} if listed else {}
        command = make_request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, **fields)
        return replace(rules, accounts={**rules.accounts, key: new}), command

    def _edit_wrongly(self, broker: str) -> None:
        """Ask for a change that is invalid, and that must not change the file."""
        stream = self.stream
        kind = stream.choice(("account", "account", "list", "key", "missing"), "wrong change")
        if kind == "list":
            white = f"{OTHERS},{stream.choice(WRONG_WHITE, 'wrong pattern')}"
            command = make_request(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs=white)
        elif kind == "missing":
            command = make_request(RequestCode.DELETE_ACL_CONFIG, accessKey=_MISSING)
        else:
            fields = {"accessKey": _MISSING}
            fields |= {"secretKey": "secret-0", **stream.choice(_WRONG_EDITS, "mistake")} if kind == "account" else {}
            command = make_request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, **fields)
        reply = self._ask_signed(broker, self._draw_editor(broker, command, 1.0), command)
        if reply is not None and not _is_refused(reply):
            asked = RefusedRequest("a wrong change of accounts", command, _FAILED)
            self.run.report(check_refused(asked, reply.response.code, disk_may_fail=False))


def _merged(old: AccountRule | None, new: AccountRule) -> AccountRule:
    """Return an account after a change. A change without an address or without names keeps the old ones."""
    if old is None:
        return new
    kinds = {name[:5] for name in new.perms}
    kept = {name: perm for name, perm in old.perms.items() if name[:5] not in kinds}
    return replace(new, white=new.white or old.white, perms={**kept, **new.perms})


def _is_refused(reply: Reply) -> bool:
    response = reply.response
    return response.code == ResponseCode.SYSTEM_ERROR and (response.remark or "").startswith(_DENIED)


def _signed(command: RemotingCommand, access: AccessRequest, unsigned: str = "") -> RemotingCommand:
    """Sign the values of all fields but `unsigned` in the order of their names, and the body."""
    if access.access_key is None:
        return command
    fields = {**command.ext_fields, "AccessKey": access.access_key}
    if access.secret_key:
        content = "".join(fields[name] for name in sorted(fields) if name != unsigned).encode() + command.body
        digest = hmac.new(access.secret_key.encode(), content, hashlib.sha1).digest()
        fields["Signature"] = base64.b64encode(digest).decode()
    return replace(command, ext_fields=fields)


def _without_field(command: RemotingCommand, name: str) -> RemotingCommand:
    return replace(command, ext_fields={each: text for each, text in command.ext_fields.items() if each != name})
