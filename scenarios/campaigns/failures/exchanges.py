"""Exchanges: the requests of a run with their answers, and the exchanges that concern a violation.

The objects of a violation are the names in it that are also values in requests: groups, topics, brokers, accounts,
clients. An exchange concerns a violation more if it has more of these names, and rarer ones.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....sim.trace import TraceEvent
from ...oracle.evidence import Violation

REQUEST, JUDGED = "request", "judged request"
"""Kinds of the events that stand for exchanges."""
EXCHANGES_MAX = 9
_EXCHANGES_MIN, _EXCHANGES_OF_CLIENT = 6, 4
"""Number of exchanges that are shown even if they are less relevant, and if the violation names no object."""
_RELEVANCE_MIN = 0.35
"""The relevance of a shown exchange, as a part of that of the most relevant one."""
_HIDDEN = (
    *("topic", "queueId", "Signature", "signature", "secretKey", "defaultTopic", "defaultTopicQueueNums", "flag"),
    *("bornTimestamp", "unitMode", "topicSysFlag", "bodyCrc32", "batch", "compressed", "haServerAddr"),
)
"""Fields in the place of a request, and fields that seldom matter."""
_VALUE_CHARACTERS_MAX, _BODY_CHARACTERS_MAX, _ANSWER_CHARACTERS_MAX = 48, 100, 120
_SLOW_NS = 100_000_000
_IN_BODY = re.compile(r'"([^"\\]+)"')
_WORD = re.compile(r"(?=.*[A-Za-z_%.])[\w%@.:/#-]{2,64}")
"""Matches a name or an address, not a number or a text."""
_IMPORTANCE = {"summary": 1.0, "expected": 0.5, "judged": 0.5, "found": 0.2}
"""Importance of an object by the place that names it."""
_QUEUE, _OF_QUEUE = re.compile(r".*/\d+"), 0.5
"""Requests about the same group, account, broker or client tell more than those about the same queue."""
_SENDER = " < "
"""Separates the line that sends an answer, which is the same for all, from its callers."""
_CONTROLS = {1: "=", 2: ";"}
"""RocketMQ's separators of properties."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its answer. Numbers are those of events in the run's trace, None before the event."""

    name: str
    """Of the request's code."""
    place: str
    """Topic and queue, or the group of a request without a topic."""
    fields: Mapping[str, str]
    body: str
    """A JSON body, or an empty text."""
    client: str
    """Address, such as 10.0.0.9:40000."""
    server: str
    is_one_way: bool
    opaque: int
    asked: int | None = None
    answered: int | None = None
    answer: str = ""
    """Code, fields and remark."""
    checked: tuple[str, int] | None = None
    """Task of the server and time in ns of the check in which the first violation was found."""
    handler: str = ""
    """Place and name of the function that handled the request."""

    @property
    def words(self) -> set[str]:
        """The names in the request."""
        host = self.client.rpartition(":")[0]
        shown = {value for name, value in self.fields.items() if name == "topic" or name not in _HIDDEN}
        found = {*shown, *_IN_BODY.findall(self.body), self.place, host} - {"true", "false"}
        return {word for word in found if _WORD.fullmatch(word)}

    def text(self, objects: Sequence[str]) -> str:
        """Describe the request. A long body is cut around the first of the objects."""
        fields = (
            f"{name}={_cut(value)}"
            for name, value in self.fields.items()
            if name not in _HIDDEN and value and value != self.place
        )
        return " ".join(part for part in (self.name, self.place, *fields, _excerpt(self.body, objects)) if part)


def _cut(value: str) -> str:
    shown = value.translate(_CONTROLS)
    return shown if len(shown) <= _VALUE_CHARACTERS_MAX else f"{shown[:_VALUE_CHARACTERS_MAX]}…"


def _excerpt(body: str, objects: Sequence[str]) -> str:
    """Return up to _BODY_CHARACTERS_MAX characters of a body, around the first of the objects."""
    if len(body) <= _BODY_CHARACTERS_MAX:
        return body
    at = next((body.index(each) for each in objects if each in body), -1)
    start = max(0, at - _BODY_CHARACTERS_MAX // 3)
    end = start + _BODY_CHARACTERS_MAX // (1 if at >= 0 else 3)
    return f"{'…' if start else ''}{body[start:end]}{'…' if end < len(body) else ''}"


class ConcernedExchanges:
    """The exchanges that concern the first violation."""

    def __init__(
        self, exchanges: Sequence[Exchange], judged: Exchange | None, violations: Sequence[Violation], last: int
    ) -> None:
        """judged: the exchange with the checked answer, if known. last: the number of the last event."""
        asked = [each for each in exchanges if each.asked is not None and each.asked <= last]
        counts = Counter(word for each in asked for word in each.words)
        weights = _weights_of_objects(violations, judged, counts)
        self.objects = sorted(weights, key=lambda word: (-weights[word], word))
        """The names of the violation's objects, the rarest first."""
        ends = [(each.client, each.server) for each in asked]
        self.connections = {f"{one}>{other}" for pair in ends for one, other in (pair, pair[::-1])}
        scores = {number: sum(weights.get(word, 0) for word in each.words) for number, each in enumerate(asked)}
        if judged in asked:
            judged = asked[_best_of_last(asked, scores, asked.index(judged))]
        self._asked, self._judged, self._last = asked, judged, last
        self._handlers = {each.name: each.handler for each in asked if each.handler}
        is_named = any(
            _names(f"{each.summary} {each.expected} {each.found}", word) for each in violations[:1] for word in weights
        )
        most = EXCHANGES_MAX if is_named else _EXCHANGES_OF_CLIENT
        self._chosen = {asked[number] for number in _most_relevant(asked, scores, most)}
        if judged is not None:
            self._chosen.add(judged)

    def events(self, events: Sequence[TraceEvent]) -> Iterator[tuple[TraceEvent, bool]]:
        """Yield the events, with one event for each exchange, and whether the event is a chosen exchange."""
        beginning: dict[int, list[Exchange]] = {}
        for each in self._asked:
            beginning.setdefault(each.asked or 0, []).append(each)
        ends = {each.answered for each in self._asked}
        for number, event in enumerate(events):
            for each in beginning.get(number, ()):
                yield self._event_of(each, events), each in self._chosen
            if number not in beginning and number not in ends:
                yield event, False

    def _event_of(self, exchange: Exchange, events: Sequence[TraceEvent]) -> TraceEvent:
        assert exchange.asked is not None, "only requests that were sent are chosen"
        began, place, end = events[exchange.asked], exchange.handler, ""
        if exchange.answered is not None and exchange.answered <= self._last:
            answered = events[exchange.answered]
            machine, _, task = answered.task.rpartition("/")
            waited_ns = answered.now_ns - began.now_ns
            is_slow = waited_ns >= _SLOW_NS
            after = f"{task}, after {waited_ns / 1e6:.3f} ms" if is_slow else ""
            answer = exchange.answer
            if exchange is not self._judged and len(answer) > _ANSWER_CHARACTERS_MAX:
                answer = f"{answer[:_ANSWER_CHARACTERS_MAX]}…"
            end = f" -> {answer} ({'/'.join(filter(None, (machine, after)))})"
            # A task for all connections may send the answer, far from the function that made it.
            place = place or (
                answered.place.partition(_SENDER)[2] if is_slow else self._handlers.get(exchange.name, "")
            )
        elif exchange.checked is not None:
            task, now_ns = exchange.checked
            end = f" -> answer checked in {task}, after {(now_ns - began.now_ns) / 1e6:.3f} ms"
        elif not exchange.is_one_way:
            end = f" -> no answer yet from {exchange.server}"
        kind = JUDGED if exchange is self._judged else REQUEST
        return began._replace(kind=kind, text=exchange.text(self.objects) + end, place=place)


def _weights_of_objects(
    violations: Sequence[Violation], judged: Exchange | None, counts: Mapping[str, int]
) -> dict[str, float]:
    """Return the weight of each object: higher for rare names, and for names in the text of the first violation."""
    named = {"summary": "", "expected": "", "found": ""}
    for violation in violations[:1]:
        named |= {"summary": violation.summary, "expected": violation.expected, "found": violation.found}
    named["found"] += "".join(f" {each.summary} {each.expected}" for each in violations[1:2])
    words = {place: {word for word in counts if _names(text, word)} for place, text in named.items()}
    words["judged"] = set() if judged is None else judged.words & counts.keys()
    weights: dict[str, float] = {}
    for place, importance in _IMPORTANCE.items():
        for word in words[place] - weights.keys():
            is_queue = _QUEUE.fullmatch(word) is not None
            weights[word] = importance * (_OF_QUEUE if is_queue else 1) / math.sqrt(counts[word])
    return weights


def _names(text: str, word: str) -> bool:
    return word in text and re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|[./]\w)", text) is not None


def _best_of_last(asked: Sequence[Exchange], scores: Mapping[int, float], judged: int) -> int:
    """Return the most relevant of a client's consecutive requests of one kind: a check may follow the last of them."""
    best, found = scores[judged], judged
    for number in range(judged, -1, -1):
        if asked[number].client != asked[judged].client:
            continue
        if asked[number].name != asked[judged].name:
            break
        if scores[number] > best:
            best, found = scores[number], number
    return found


def _most_relevant(asked: Sequence[Exchange], scores: Mapping[int, float], most: int) -> Iterator[int]:
    """Yield the numbers of the most relevant exchanges, the latest of equal ones.

    The more exchanges of one kind are before it, the less an exchange counts.
    """
    ranks, least = Counter[str](), max(scores.values(), default=0) * _RELEVANCE_MIN
    ranked = []
    for number in sorted(scores, key=lambda each: (scores[each], each), reverse=True):
        ranks[asked[number].name] += 1
        if scores[number]:
            ranked.append((scores[number] / ranks[asked[number].name], number))
    for place, (_, number) in enumerate(sorted(ranked, reverse=True)[:most]):
        if place < _EXCHANGES_MIN or scores[number] > least:
            yield number
