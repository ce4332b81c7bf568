"""Access file: the plain_acl.yml of a simulated broker, which an operator of the machine edits, damages and repairs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ....sim.choices import Stream
from ....store.broker.acl.plain_acl import AccessControl
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import encode_frame
from ....store.side_file import SideFile
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.access_rules import AccessModel, AccountRule, RuleSet
from ...workload.drawing import topic_of_users

PATH = "/store/conf/plain_acl.yml"
ACCESS_NET = 150
"""The last byte of the address of the client with accounts."""
HOST = f"10.0.0.{ACCESS_NET}"
OTHERS, OTHERS_KEY = "10.0.0.0-149", "client-1"
"""The addresses of all other clients, and the key of their account, which needs no signature."""
ADMIN, ACCOUNTS = "operator-1", ("account-1", "account", "0012345")
"""Two keys have the minimum length. One of them is a number for a reader of YAML."""
GROUP = "accounts"
_PERMS = ("DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB")
WHITE = (
    *(HOST, "10.0.0.{1,150}", "10.0.0.{149, 151}", "10.0.1.*", "10.0.0.15", "10.0.0.100-150", "10.0.0.151-255"),
    *("10.0.0-5.*", "10.1-255.*.*", "*", "*.*.*.*", "*:*:*:*:*:*:*:*", "::a00:96", "fe80::{1,96}", "::ffff:*"),
    *("10.0.0.1, 10.0.0.150", "10.0.0.1,10.0.0.15", "2001:db8:0-ff:*:*:*:*:*,10.0.0.150", "1:2:3:4:5:6:7:8"),
)
"""Patterns of addresses, in all forms."""
WRONG_WHITE = (
    *("10.0.0", "10.0.0.150.1", "10.0.0.256", "10.0.0.150-1", "10.0.*.150", "10.0-1.0.150", "10.{0,1}.0.150"),
    *("10.0.0.{150", "10.0.0.-150", "10.0.0.00150", "1:2:3", "1::2::3", "::g", "::10000", "localhost"),
)
"""No patterns of addresses."""
_WHITE_CHANCE, _EMPTY_CHANCE = 0.4, 0.3
_NO_VERSIONS = ("", "dataVersion: 7", "dataVersion: []", "dataVersion:\n- 7", "dataVersion:\n- counter: -7")
WATCH_MS = 500
"""How often the broker looks at the file. RocketMQ's brokers use 5 s."""
_RELOAD_MS = 100
_SYNCS_PER_EDIT = 8
"""The maximum number of syncs of an edit by an administrator, during which the file is not read."""
_PAUSES_MS = (100, 2_000, 7_000)
_SECRETS = 3
_REPLACEABLE = re.compile(r"(?<!\|)\b(?:PUB|SUB)\b(?!\|)|secret?-\d")
_DAMAGE_MS = (1, 1_000, 6_000)
_DAMAGE_CHANCE = 0.3
_DAMAGES: tuple[Callable[[bytes], bytes] | None, ...] = (
    None,
    lambda text: text.replace(b"admin: ", b"admin: 1", 1),
    lambda text: text.replace(b"accessKey: ", b"accessKey: \xff", 1),
    lambda text: text.replace(b"secretKey: ", b"secretkey: ", 1),
    lambda text: text[: text.index(b"secretKey")],
    lambda text: text + b"accounts: []\n",
    lambda text: text.replace(b"accounts:", b"accounts: 1\nothers:", 1),
    lambda text: text.replace(b"accessKey: ", b"accessKey: [0]\n  admin: ", 1),
    lambda text: text.replace(b"- accessKey", b"- account-9\n- accessKey", 1),
    lambda text: text.replace(b"globalWhiteRemoteAddresses:", b"globalWhiteRemoteAddresses:\n- localhost", 1),
    lambda text: text.replace(b"accounts:", b"accounts:\n- accessKey: operator-1\n  secretKey: secret-9", 1),
    lambda text: text.replace(b"secretKey: ", b"secretKey: [a]\n  #", 1),
    lambda text: re.sub(rb"(?s)(globalWhiteRemoteAddresses:).*?(?=\naccounts)", rb"\1 10.0.0.1", text),
    lambda text: text + text,
    lambda text: b"- " + text,
    lambda text: b"accounts",
    lambda text: text + b"\t{",
    lambda text: text + b"\x07",
)
"""Changes after which the file is invalid. None: it is missing."""


def draw_account(stream: Stream, topics: int, *, admin: bool = False) -> AccountRule:
    names = [*(f"topic:{topic_of_users(number)}" for number in range(topics)), f"group:{GROUP}"]
    perms = {name: stream.choice(_PERMS, f"perm of {name}") for name in names if stream.chance(0.5, f"names {name}")}
    if admin:
        return AccountRule("secret-of-operator", admin=True)
    defaults = stream.choice(_PERMS, "default of topics"), stream.choice(_PERMS, "default of groups")
    is_admin = stream.chance(0.2, "is an admin")
    secret = f"{stream.choice(('secret', 'secre'), 'length')}-{stream.randbelow(_SECRETS, 'secret')}"
    white = stream.choice(WHITE, "white address") if stream.chance(_WHITE_CHANCE, "has a white address") else ""
    return AccountRule(secret, is_admin, white, *defaults, perms)


def draw_rules(stream: Stream, plan: Plan) -> RuleSet:
    keys = [key for key in ACCOUNTS if stream.chance(0.8, f"has {key}")]
    accounts: Mapping[str, AccountRule] = {key: draw_account(stream, plan.topics) for key in keys}
    white = draw_white(stream, WHITE)
    others = AccountRule("secret-of-clients", white=OTHERS)
    rules = {ADMIN: draw_account(stream, plan.topics, admin=True), OTHERS_KEY: others, **accounts}
    return RuleSet(white, rules, stream.choice((0, 1, 7), "version"))


def draw_white(stream: Stream, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return an empty white list, or one with the addresses of all other clients."""
    if stream.chance(_EMPTY_CHANCE, "has no white addresses"):
        return ()
    return OTHERS, *((stream.choice(patterns, "white pattern"),) if stream.chance(_WHITE_CHANCE, "adds one") else ())


def frame_of_others(command: RemotingCommand) -> bytes:
    """Encode a request as a client does that names its account and signs nothing."""
    return encode_frame(replace(command, ext_fields={**command.ext_fields, "AccessKey": OTHERS_KEY}))


def access_model(stream: Stream, plan: Plan, delayed_until_ns: Callable[[], int]) -> AccessModel:
    reload_ms = WATCH_MS + _RELOAD_MS + _SYNCS_PER_EDIT * plan.sync_ms_max
    return AccessModel(HOST, draw_rules(stream, plan), reload_ms * 1_000_000, delayed_until_ns)


def load_access(world: World, model: AccessModel) -> AccessControl:
    """Read the file at a start. Before the first start, and after damage, an operator writes it."""
    file = SideFile(world.files, PATH)
    is_new = not any(world.files.status(path) for path in (PATH, file.backup_path))
    if is_new or model.is_damaged:
        file.store(model.current.text().encode())
        model.is_damaged = False
    return AccessControl(world, PATH, lambda line: None, WATCH_MS)


def access_operator(
    world: World, model: AccessModel, plan: Plan, stream: Stream
) -> Callable[[Callable[[int | None], bool]], Callable[[], None]]:
    """Return a task that changes the file by hand, or damages it for a while."""

    def make(stopped_within: Callable[[int | None], bool]) -> Callable[[], None]:
        def operate() -> None:
            while not stopped_within(stream.choice(_PAUSES_MS, "pause")):
                if not model.may_change:
                    continue
                if stream.chance(_DAMAGE_CHANCE, "damages"):
                    if _damage_for_a_while(world, model, stream, stopped_within):
                        return
                    continue
                text = _draw_text(world, plan, stream)
                if not model.may_change:  # a request has begun while the file was read
                    continue
                model.begin_change(RuleSet.parse(text), by_hand=True)
                SideFile(world.files, PATH).store(text.encode())
                model.end_change(world.clock.monotonic_ns())

        return operate

    return make


def _draw_text(world: World, plan: Plan, stream: Stream) -> str:
    """Return the file with other rules, or with permissions and keys replaced by others of the same length."""
    text = world.files.read(PATH).decode()
    words = list(_REPLACEABLE.finditer(text))
    if not words or stream.chance(0.5, "writes a new file"):
        is_short, quote = stream.chance(0.5, "leaves defaults out"), stream.choice(("'", '"'), "quotes")
        no_version = stream.choice(_NO_VERSIONS, "form of version 0")
        return draw_rules(stream, plan).text(is_short=is_short, quote=quote, no_version=no_version)
    if stream.chance(0.5, "replaces all"):
        return _REPLACEABLE.sub(_word_of_same_length, text)
    word = stream.choice(words, "word to replace")
    return text[: word.start()] + _word_of_same_length(word) + text[word.end() :]


def _word_of_same_length(word: re.Match[str]) -> str:
    new = {"PUB": "SUB", "SUB": "PUB"}.get(word[0]) or f"{word[0][:-1]}{(int(word[0][-1]) + 1) % _SECRETS}"
    assert len(new) == len(word[0]), new
    return new


def _damage_for_a_while(
    world: World, model: AccessModel, stream: Stream, stopped_within: Callable[[int | None], bool]
) -> bool:
    """Return whether the operator was called off meanwhile."""
    model.begin_damage(world.clock.monotonic_ns())
    text = world.files.read(PATH)
    damage = stream.choice(_DAMAGES, "damage")
    if damage is None:
        world.files.unlink(PATH)
    else:
        SideFile(world.files, PATH).store(damage(text))
    is_over = stopped_within(stream.choice(_DAMAGE_MS, "ms of damage"))
    SideFile(world.files, PATH).store(text)
    model.end_damage(world.clock.monotonic_ns())
    return is_over
