"""Messages with keys that others have too, as producers put them, and users who look messages up by key.

Every message has its name as a key. Some share a few more: two each of the same hash, one that is long, one that is
not ASCII, and a UNIQ_KEY, which a producer that tries again uses twice. What a seeker asks for is drawn, and may not
have been put yet, or never.
"""

from collections.abc import Callable, Iterable

from ...sim.choices import Stream
from ...store.errors import StoreNotReadableError
from ...store.message_store import MessageStore
from ..claims.plan import Plan
from ..oracle.evidence import Violation
from ..oracle.invariants import idx
from ..oracle.ledger import Ledger

SHARED = ("AaAa", "BBBB", "AaBB", "order-1", "k" * 150, "schlüssel")
"""The first three have one hash, in every topic."""
UNIQUE = ("C0A80001", "C0A80002")
_KEYS_MAX = 3
_AGO_MS_MAX = 5_000
_PAUSE_CHANCE = 0.7
_SHARED_CHANCE = 0.4
_WINDOW_CHANCE = 0.3


def draw_keys(stream: Stream, plan: Plan, name: str) -> tuple[list[str], str]:
    """Draw the keys that a message has beside its name, and its UNIQ_KEY, empty for none."""
    if not stream.chance(plan.index.keys_chance, "more keys"):
        return [], ""
    count = stream.below(_KEYS_MAX + 1, "shared keys")
    shared = [stream.pick(SHARED, "shared key") for _ in range(count)]
    return shared, stream.pick(("", name, *UNIQUE), "unique key")


class Seeker:
    """A user who looks up as many messages as a producer puts, and reports what is wrong with the answers."""

    def __init__(
        self,
        plan: Plan,
        life: int,
        store: MessageStore,
        ledger: Ledger,
        stream: Stream,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        self._plan = plan
        self._life = life
        self._store = store
        self._ledger = ledger
        self._stream = stream
        self._report = report

    def seek(self, messages_each: int) -> None:
        """Look messages up, one after the other, until the store stops."""
        for _ in range(messages_each):
            try:
                self.seek_one(messages_each)
            except StoreNotReadableError:
                return

    def seek_one(self, messages_each: int) -> None:
        """Look up what is drawn, out of what so many puts each may have put. Raises StoreNotReadableError."""
        plan, store, stream = self._plan, self._store, self._stream
        topic = f"T{stream.below(plan.topics, 'topic')}"
        key = self._draw_key(messages_each)
        ago_ms = self._draw_window()
        if stream.chance(_PAUSE_CHANCE, "pause"):
            store.world.tasks.sleep(stream.between(1, plan.pauses.ms_max, "pause ms"))
        window_ms = idx.ALWAYS_MS
        if ago_ms is not None:
            now_ms = store.world.clock.now_ms()
            window_ms = (now_ms - ago_ms[0], now_ms - ago_ms[1])
        dispatched_to = store.dispatch.reput_from.get()
        result = store.query_message(topic, key, idx.ANSWERS_MAX, *window_ms)
        self._report(idx.check_answer(store, self._ledger, (topic, key), window_ms, result, dispatched_to))

    def _draw_key(self, messages_each: int) -> str:
        """Draw a key: one of those that messages share, or the name of one that is put in this or an earlier life."""
        stream = self._stream
        if stream.chance(_SHARED_CHANCE, "shared"):
            return stream.pick((*SHARED, *UNIQUE), "shared key")
        life, count = stream.below(self._life + 1, "life"), stream.below(messages_each, "message")
        return f"m{life}.{stream.below(self._plan.producers, 'producer')}.{count}"

    def _draw_window(self) -> tuple[int, int] | None:
        """Draw how many ms ago the time asked for begins and ends, None for all times."""
        if not self._stream.chance(_WINDOW_CHANCE, "window"):
            return None
        begin_ms = self._stream.below(_AGO_MS_MAX, "begins ms ago")
        return begin_ms, self._stream.below(begin_ms + 1, "ends ms ago")
