"""Group race: both clients of an act change one group at the same time.

Each change must take effect at one moment between its request and its answer. So afterwards all views together must
show one of the two orders of the changes (linearizability of two operations).
Source: Herlihy and Wing, Linearizability, TOPLAS 1990.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from ....store.broker.requests import RequestCode, ResponseCode
from ...oracle.group_delivery import Queue
from ...oracle.group_model import GroupModel, GroupSettings, MemberConnection
from .broker_user import Reply
from .commands import granted_queues, make_request
from .group_act import GroupChange, GroupClient, UncertainError
from .group_views import GroupViews, ids_of, json_of

Granted = Mapping[MemberConnection, Sequence[Queue]]
"""Connection -> the queues that the answer to its request for locks grants, in order."""
State = Mapping[str, object]
"""What a view of a group shows, by its name."""
_OFFSETS, _GRANTED = "offsets", "granted locks"
_INVARIANTS = {_OFFSETS: "META", _GRANTED: "LOCK"}
"""The invariants of views. All others concern LIVE."""
_CHANGE_CHANCE, _LOCK_CHANCE, _CLONE_CHANCE, _COMMIT_CHANCE = 0.3, 0.3, 0.25, 0.2
"""The chances of races that random changes rarely make: the last member of a group leaves while another joins, both
clients ask for locks, one clones offsets while the other commits one of them, or both commit.
"""


def race(act: GroupViews) -> None:
    """Make two changes at the same time. Afterwards the act has the model of the order that the broker chose."""
    group, queues = act.draw_group(), act.known_queues()
    if act.stream.chance(_CHANGE_CHANCE, "the only member changes"):
        comes, leaves = act.stream.choice((act.clients, act.clients[::-1]), "who comes")
        act.make(act.heartbeat(leaves, chosen=group))
        act.make(act.unregister(comes, chosen=group))
        changes = [act.heartbeat(comes, chosen=group), act.unregister(leaves, chosen=group)]
    elif act.stream.chance(_LOCK_CHANCE, "locks at once") and not act.is_one_client:
        changes = [act.lock(client, chosen=group) for client in act.clients]
    elif act.stream.chance(_CLONE_CHANCE, "clones at once") and queues:
        changes = _draw_clone_and_commit(act, group)
    else:
        changes = [_draw_change(act, client, group) for client in act.clients]
    granted = _make_at_once(act, changes)
    found = {**_look_at(act, group, queues), _GRANTED: granted}
    after = [_after(act, group, order, queues) for order in (changes, changes[::-1])]
    fitting = [model for model, state in after if state == found]
    if not fitting:
        act.await_notices()  # fails at a broker that stops: the end of one connection is a notice to the other client
        names = " and ".join(RequestCode(change.command.code).name for change in changes)
        expected = [state for _, state in after]
        wrong = [name for name in found if all(state[name] != found[name] for state in expected)]
        name = wrong[0] if wrong else "views, each of another order,"
        shown = [{each: state[each] for each in wrong or found} for state in (*expected, found)]
        invariant = _INVARIANTS.get(name, "LIVE")
        act.report(invariant, f"{group} has wrong {name} after {names} at once", shown[:2], shown[2])
        raise UncertainError
    if any(model != fitting[0] for model in fitting):  # no view shows the difference, but a later answer may
        raise UncertainError
    act.model = fitting[0]


def _draw_change(act: GroupViews, client: GroupClient, group: str) -> GroupChange:
    stream = act.stream
    draws = (act.heartbeat, act.heartbeat, act.unregister, act.unregister, act.clone, act.delete, act.set_group)
    if stream.chance(_COMMIT_CHANCE, "commits at once") and (commits := act.commits(client, chosen=group)):
        return stream.choice(commits, "commit at once")
    return stream.choice(draws, "change at once")(client, chosen=group)


def _draw_clone_and_commit(act: GroupViews, group: str) -> list[GroupChange]:
    """Clone the offsets of a group, often onto itself, while the other client commits a new one."""
    stream = act.stream
    cloning, committing = stream.choice((act.clients, act.clients[::-1]), "who clones")
    source = stream.choice((group, act.draw_group()), "group to clone")
    for change in act.commits(committing, chosen=source):
        act.make(change)
    commit = stream.choice(act.commits(committing, chosen=source), "commit during a clone")
    return [act.clone(cloning, chosen=group, source=source), commit]


def _make_at_once(act: GroupViews, changes: Sequence[GroupChange]) -> Granted:
    """Return what the answers grant. Raise UncertainError if an answer is missing."""
    replies: dict[MemberConnection, Reply] = {}

    def ask(change: GroupChange) -> None:
        with suppress(UncertainError):
            replies[change.client.connection] = act.ask(change.client, change.command)

    tasks = [act.user.world.tasks.spawn("change at once", partial(ask, change)) for change in changes]
    for task in tasks:
        task.join(None)
    if len(replies) < len(changes):
        raise UncertainError
    return {
        change.client.connection: granted_queues(replies[change.client.connection].response)
        for change in changes
        if change.command.code == RequestCode.LOCK_BATCH_MQ
    }


def _after(
    act: GroupViews, group: str, changes: Sequence[GroupChange], queues: Sequence[Queue]
) -> tuple[GroupModel, State]:
    """Return the model after changes in this order, and what it shows."""
    model = deepcopy(act.model)
    granted = {change.client.connection: change.apply(model) for change in changes}
    for notices in model.notices.values():
        notices.sort()
    locked = {client: sorted(queues) for client, queues in granted.items() if queues is not None}
    return model, {**_state_in(model, act, group, queues), _GRANTED: locked}


def _state_in(model: GroupModel, act: GroupViews, group: str, queues: Sequence[Queue]) -> State:
    offsets = model.offsets.get(group, {})
    return {
        "members": model.member_ids(group),
        "producers": ids_of(model.producers(group)),
        "type, model or start": model.mode(group),
        "subscriptions": model.subscriptions(group),
        "settings": model.settings.get(group),
        "notices": [sorted(model.notices.get(client.connection, [])) for client in act.clients],
        _OFFSETS: {queue: offsets.get(queue, 0) for queue in queues},
    }


def _look_at(act: GroupViews, group: str, queues: Sequence[Queue]) -> State:
    """Ask for each view. An offset of 0 and none look alike."""
    client = act.clients[0]
    connections = make_request(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)
    reply = act.ask(client, connections, ResponseCode.CONSUMER_NOT_ONLINE)
    mode, subscriptions = act.consuming_of(json_of(reply)) if reply.is_success else (None, {})
    settings = json_of(act.ask(client, make_request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)))
    members, producers = act.members_of(client, group), act.producers_of(client, group)
    offsets = {queue: act.offset_of(client, group, queue) or 0 for queue in queues}
    act.await_notices()
    return {
        "members": sorted(members),
        "producers": sorted(producers),
        "type, model or start": mode,
        "subscriptions": subscriptions,
        "settings": _settings_of(settings["subscriptionGroupTable"].get(group)),
        "notices": [sorted(each.received) for each in act.clients],
        _OFFSETS: offsets,
    }


def _settings_of(found: dict[str, Any] | None) -> GroupSettings | None:
    if found is None:
        return None
    names = ("consumeEnable", "consumeBroadcastEnable", "notifyConsumerIdsChangedEnable")
    return GroupSettings(*(found[name] for name in names))
