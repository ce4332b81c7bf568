"""Group offsets: resets, and what operators see of the offsets of groups, compared with the model of an act (META).

    INVOKE_BROKER_TO_RESET_OFFSET   the offsets that members receive (LIVE)
    GET_BROKER_CONSUME_STATS        the progress of all groups
    QUERY_CORRECTION_OFFSET         the lowest offset of all groups, by which an operator corrects that of another

Source: RocketMQ AdminBrokerProcessor.fetchAllConsumeStatsInBroker and queryCorrectionOffset, Broker2Client.resetOffset,
ConsumerOffsetManager.queryMinOffsetInAllGroup.
"""

import re

import msgspec

from ....store.broker.requests import LONG_MAX, RequestCode, ResponseCode
from ....store.formats.remoting.json_body import decode_queue_offsets, encode_json_body
from ...oracle.group_delivery import Queue
from .commands import make_request, max_offset_command
from .group_act import GroupClient
from .group_views import GroupViews, json_of, progress_in

_AGO_MS = (5, 100, 1_000, 10_000)
_COMMIT_CHANCE, _OWN_OFFSETS = 0.5, (0, 0, 1, 9)
"""In short queues, most offsets are the end of the queue or beyond."""
_ORDERED_CHANCE, _IGNORED_CHANCE = 0.3, 0.3
_FIGURES = re.compile(r'\{[^{}]*"brokerOffset"[^{}]*\}')
_CORRECTIONS = re.compile(r"(\d+):(\d+)")


def reset(act: GroupViews, client: GroupClient) -> None:
    """Reset a group to the end of its queues, to the first message that may be left, or to those of some time ago.

    Members receive the offsets in the answer, as a list if the operator has a C++ client.
    """
    queue, group, stream, model = act.draw_queue(), act.draw_group(), act.stream, act.model
    if queue is None:
        return
    if act.forms.chance(_COMMIT_CHANCE, "has an offset"):
        act.make(act.commit(client, group, queue, act.forms.choice(_OWN_OFFSETS, "offset before a reset")))
    ago_ms = act.forms.choice(_AGO_MS, "ms ago")
    time_ms = stream.choice((-1, 0, act.user.world.clock.now_ms() - ago_ms), "reset to")
    is_forced, has_members = stream.chance(0.5, "forced"), bool(model.members(group))
    fields = {"topic": queue[0], "group": group, "timestamp": time_ms, "isForce": is_forced}
    wanted = [_offset_at(act, client, queue, time_ms)]
    command = make_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **act.without_defaults(fields))
    reply = act.ask(client, command, *() if has_members else (ResponseCode.CONSUMER_NOT_ONLINE,))
    act.report("STATUS", f"a reset of {group} with members {has_members}", has_members, reply.is_success)
    if not reply.is_success:
        return
    offsets = decode_queue_offsets(reply.response.body, "offsetTable")
    listed = [
        {"brokerName": place.broker_name, "offset": offset, "queueId": place.queue_id, "topic": place.topic}
        for place, offset in offsets.items()
    ]
    _, language, _ = client.shown
    model.reset(group, encode_json_body({"offsetTable": listed}) if language == "CPP" else reply.response.body)
    wanted.append(_offset_at(act, client, queue, time_ms))
    found = next((offset for place, offset in offsets.items() if (place.topic, place.queue_id) == queue), None)
    own = model.offsets.get(group, {}).get(queue, -1)
    low, high = sorted(offset if is_forced or own < 0 else min(own, offset) for offset in wanted)
    if found is not None and not low <= found <= high:
        place = f"{group} in {queue[0]}/{queue[1]}"
        act.report("META", f"a reset of {place} to {time_ms} ms answers another offset", (low, high), found)


def _offset_at(act: GroupViews, client: GroupClient, queue: Queue, time_ms: int) -> int:
    """time_ms: -1 for the end of the queue."""
    fields = {"topic": queue[0], "queueId": queue[1], "timestamp": time_ms}
    by_time = make_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **fields)
    return act.ask(client, max_offset_command(*queue) if time_ms == -1 else by_time).field("offset")


def show_progress_of_all(act: GroupViews, client: GroupClient) -> None:
    """Ask for the progress of all groups in ordered or in other topics. No topic of users is ordered."""
    model, is_ordered = act.model, act.forms.chance(_ORDERED_CHANCE, "ordered topics")
    body = act.ask(
        client, make_request(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=is_ordered)
    ).response.body.decode()
    tables = {group: re.search(rf'"{group}":\[([^\]]*)\]', body) for group in act.groups}
    listed = [group for group, table in tables.items() if table is not None]
    act.report("META", "an operator sees the progress of wrong groups", sorted(model.settings), sorted(listed))
    figures = [msgspec.json.decode(text) for text in _FIGURES.findall(body)]
    lag, found = sum(each["brokerOffset"] - each["consumerOffset"] for each in figures), _total_lag_in(body)
    act.report("META", "the total lag is not the sum of all groups' lags", lag, found)
    if act.user.plan.broker.operators:  # may take away queues, which then have no progress
        return
    topics = [*act.run.topics, *act.retry_topics_of(*act.groups)]
    for group, table in tables.items():
        expected = {} if is_ordered or table is None else model.progress(group, "", topics)
        shown = {} if table is None else progress_in(table[1])
        nonzero = [{queue: offset for queue, offset in each.items() if offset} for each in (expected, shown)]
        kind = "ordered" if is_ordered else "other"
        act.report("META", f"{group} has a wrong progress among all groups, in {kind} topics", *nonzero)


def _total_lag_in(body: str) -> int:
    found = re.search(r'"totalDiff":(-?\d+)', body)
    return 0 if found is None else int(found[1])


def show_correction(act: GroupViews, client: GroupClient) -> None:
    """Ask for the lowest offset of the act's groups in a queue, some left out. Offsets before the queue do not count.

    The answer is the greatest number if the offset of a compared group is lower.
    """
    queue = act.draw_queue()
    if queue is None:
        return
    ignored = [group for group in act.groups if act.forms.chance(_IGNORED_CHANCE, "left out")]
    compared, before = act.forms.choice(("", *act.groups), "compared group"), _others_and_begin(act, client, queue)
    fields = {"topic": queue[0], "filterGroups": ",".join((*before[0], *ignored)), "compareGroup": compared}
    reply = act.ask(client, make_request(RequestCode.QUERY_CORRECTION_OFFSET, **fields))
    if _others_and_begin(act, client, queue) != before:
        return
    offsets = {group: table[queue] for group, table in act.model.offsets.items() if queue in table}
    known = [offset for group, offset in offsets.items() if group not in ignored and offset >= before[1]]
    lowest = min(known, default=None)
    if lowest is not None and offsets.get(compared, lowest) < lowest:
        lowest = LONG_MAX
    found = {int(number): int(offset) for number, offset in _CORRECTIONS.findall(reply.response.body.decode())}
    place = f"{queue[0]}/{queue[1]} without {ignored}, compared with {compared!r}"
    act.report("META", f"the lowest offset of all groups in {place} is wrong", lowest, found.get(queue[1]))


def _others_and_begin(act: GroupViews, client: GroupClient, queue: Queue) -> tuple[list[str], int]:
    """Return all other groups with offsets in the topic, and the begin of the queue."""
    groups = json_of(act.ask(client, make_request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic=queue[0])))
    begin = act.ask(client, make_request(RequestCode.GET_MIN_OFFSET, topic=queue[0], queueId=queue[1]))
    return [group for group in groups["groupList"] if group not in act.groups], begin.field("offset")
