"""One soak of a broker: honest clients alone, together with hostile clients, and alone again.

The broker, the honest clients and the hostile clients run in separate processes. Honest clients send at a rate that a
broker on one core can serve easily. A latency is measured from the time when the request was due. Only figures of the
same run are compared, so the speed of the machine does not matter. Only the broker's anonymous memory is measured,
because its memory maps belong to files.

Hostile clients also use the machine's processors, which no broker can prevent. So an attack of one kind runs twice. The
first attack, against another broker on the machine, measures the processors' part of the cost. The second attack is
against the broker of the honest clients.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.broker import BrokerProcess, LoadProcess, LoadResult, ProcessError
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import RequestCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.real.world import real_world

from .hostile_kinds import Tally
from .hostile_main import HostileProcess

GROWTH_MAX = 0.05
RESIDENT_BYTES_MAX = 250 << 20
SLOWDOWN_MAX = 2.0
BUSY_MAX = 0.001
_CONNECTIONS = 8
_SEND_INTERVAL_MS = 40
_PULL_INTERVAL_MS = 80
_WARM_UP_SECONDS = 1.0
_CONNECT_SECONDS = 1.0
"""Time for honest clients to connect first, because the system accepts connections in order of arrival."""
_UNDISTURBED_SHARE = 0.15
_SETTLED_SHARE = 0.4
"""Share of the disturbed time before memory is measured. Ten thousand connections are opened in this time."""
_IDLE_SECONDS = 120.0
_LEFT_SECONDS = 20.0
_OWN_REQUEST_BYTES = 256
"""Limit of the bytes held at the end. The last request itself is held while it is answered."""
_ASK_MS = 10_000
_SAMPLES_A_SECOND = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """One requirement and its result."""

    name: str
    held: bool
    detail: str


@dataclass
class Soak:
    """The measurements of a soak."""

    is_mixed: bool = True
    """Whether all kinds ran. In a run of a single kind, connections and memory may grow until the end."""
    undisturbed: list[Mapping[str, LoadResult]] = field(default_factory=list)
    """Results of the honest clients before and after the attack."""
    beside: Mapping[str, LoadResult] = field(default_factory=dict)
    """Results of the honest clients during the attack on another broker. Empty in a soak of all kinds."""
    disturbed: Mapping[str, LoadResult] = field(default_factory=dict)
    resident_bytes: list[int] = field(default_factory=list)
    """Samples of the broker's memory, ten per second during the attack."""
    hostile: Mapping[str, Tally] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    """The broker's figures after all other clients have disconnected."""
    connections_max: int = 0
    stopped: Mapping[str, Any] = field(default_factory=dict)

    def verdicts(self) -> list[Verdict]:
        return [
            *([self._growth()] if self.is_mixed else []),
            self._memory(),
            *(self._latency(kind) for kind in self.disturbed),
            *(self._busy(kind) for kind in self.disturbed),
            *(self._tally(name, tally) for name, tally in self.hostile.items()),
            self._nothing_left(),
            Verdict("the broker stops cleanly", self.stopped.get("clean") is True, ""),
        ]

    @property
    def growth(self) -> float:
        """Return the growth of memory from the first to the last third of the time in which it is measured."""
        settled = self.resident_bytes[int(len(self.resident_bytes) * _SETTLED_SHARE) :]
        third = max(len(settled) // 3, 1)
        return median(settled[-third:]) / median(settled[:third]) - 1

    def _growth(self) -> Verdict:
        return Verdict(f"memory is flat within {GROWTH_MAX:.0%}", self.growth <= GROWTH_MAX, f"{self.growth:+.1%}")

    def _memory(self) -> Verdict:
        highest = max(self.resident_bytes)
        name = f"memory is at most {RESIDENT_BYTES_MAX >> 20} MiB"
        return Verdict(name, highest <= RESIDENT_BYTES_MAX, f"{highest / (1 << 20):.0f} MiB")

    def _latency(self, kind: str) -> Verdict:
        alone_us = [results[kind].p99_us for results in self.undisturbed]
        among_us = self.disturbed[kind].p99_us
        undisturbed_us = self.beside[kind].p99_us if self.beside else mean(alone_us)
        detail = " and ".join(f"{one_us / 1_000:.1f}" for one_us in alone_us) + " ms alone, "
        if self.beside:
            detail += f"{undisturbed_us / 1_000:.1f} ms while another broker is attacked, "
        detail += f"{among_us / 1_000:.1f} ms among hostile ones"
        return Verdict(
            f"p99 of an honest {kind} is within {SLOWDOWN_MAX:g} times",
            among_us <= SLOWDOWN_MAX * undisturbed_us,
            detail,
        )

    def _busy(self, kind: str) -> Verdict:
        found = self.disturbed[kind]
        detail = f"{found.busy} of {found.answers}"
        name = f"at most {BUSY_MAX:.1%} of honest {kind}s are refused"
        return Verdict(name, found.busy <= BUSY_MAX * found.answers, detail)

    def _tally(self, name: str, tally: Tally) -> Verdict:
        """Check that a kind connected, and that none of its connections stayed open after its deadline."""
        detail = f"{tally.made} made, {tally.closed_by_broker} closed by the broker, {tally.stuck} stuck"
        held = tally.made > 0 and tally.stuck == 0 and tally.refused * 100 <= tally.made
        detail += f", {tally.refused} refused" if tally.refused else ""
        return Verdict(name, held, detail + ("" if tally.ended else ", none fell due"))

    def _nothing_left(self) -> Verdict:
        connections, held = self.left["connections"], self.left["heldBytes"]
        detail = f"{connections} connection, {held} bytes held; {self.connections_max} connections at most"
        return Verdict("nothing is left", _shows_no_leftovers(self.left), detail)


def run_soak(
    directory: str, seconds: float, idle: int, on_phase: Callable[[str], None], only: Sequence[str] = ()
) -> Soak:
    """Soak a broker for about `seconds`. Raises ProcessError if an honest client or the broker failed.

    `only` names kinds of hostile clients. Empty means all kinds that can run together.
    """
    soak = Soak(is_mixed=not only)
    frame, output = min(60.0, seconds / 6), min(30.0, seconds / 6)
    settings = (
        "mapedFileSizeCommitLog=67108864",
        f"serverFrameTimeoutMillis={frame * 1_000:.0f}",
        f"serverOutputTimeoutMillis={output * 1_000:.0f}",
        f"serverChannelMaxIdleTimeSeconds={_IDLE_SECONDS:.0f}",
    )
    limits = {"frame": frame, "output": output, "idle": _IDLE_SECONDS}
    among_seconds = max(seconds * (1 - 2 * _UNDISTURBED_SHARE), 5.0)

    def attack(address: str) -> HostileProcess:
        return HostileProcess(address, among_seconds, idle, limits, only)

    with BrokerProcess(directory, settings) as broker:
        on_phase("warming up")
        LoadProcess("send", broker.address, "--seconds", str(_WARM_UP_SECONDS)).result()
        LoadProcess("pull", broker.address, "--seconds", str(_WARM_UP_SECONDS)).result()
        on_phase("honest clients alone")
        alone_seconds = max(seconds * _UNDISTURBED_SHARE, 3.0)
        soak.undisturbed.append(_results(_honest_clients(broker.address, alone_seconds)))
        if only:
            on_phase("honest clients while another broker is attacked")
            with TemporaryDirectory(dir=directory) as elsewhere, BrokerProcess(elsewhere, settings) as other:
                soak.beside, _ = _run_among_hostile_clients(
                    lambda: attack(other.address), broker.address, among_seconds, lambda: None
                )
        on_phase("honest clients among hostile ones")
        with closing(RemotingClient(real_world(), broker.address)) as client:
            soak.disturbed, soak.hostile = _run_among_hostile_clients(
                lambda: attack(broker.address),
                broker.address,
                among_seconds,
                lambda: _sample_broker(soak, broker, client),
            )
        on_phase("what is left")
        soak.left = _wait_for_disconnects(broker.address)
        on_phase("honest clients alone")
        soak.undisturbed.append(_results(_honest_clients(broker.address, alone_seconds)))
    soak.stopped = broker.stopped
    return soak


def _run_among_hostile_clients(
    attack: Callable[[], HostileProcess], address: str, seconds: float, look: Callable[[], None]
) -> tuple[dict[str, LoadResult], dict[str, Tally]]:
    """Return the results of the honest clients and the tallies of the hostile clients during an attack.

    `look` is called once per second.
    """
    honest = _honest_clients(address, _CONNECT_SECONDS + seconds)
    time.sleep(_CONNECT_SECONDS)
    hostile = attack()
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            second_ends = time.monotonic() + 1.0
            look()
            time.sleep(max(second_ends - time.monotonic(), 0.0))
        return _results(honest), hostile.tallies()
    finally:
        hostile.kill()
        for process in honest.values():
            process.kill()


def _honest_clients(address: str, seconds: float) -> dict[str, LoadProcess]:
    pace = ("--connections", str(_CONNECTIONS), "--seconds", str(seconds), "--interval-ms")
    return {
        "send": LoadProcess("send", address, *pace, str(_SEND_INTERVAL_MS)),
        "pull": LoadProcess("pull", address, *pace, str(_PULL_INTERVAL_MS)),
    }


def _results(processes: Mapping[str, LoadProcess]) -> dict[str, LoadResult]:
    try:
        return {kind: process.result() for kind, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()


def _sample_broker(soak: Soak, broker: BrokerProcess, client: RemotingClient) -> None:
    """Sample the number of connections once and the memory ten times, because a memory peak can be short."""
    soak.connections_max = max(soak.connections_max, int(_runtime_info(client)["connections"]))
    for _ in range(_SAMPLES_A_SECOND):
        soak.resident_bytes.append(broker.resident_bytes)
        time.sleep(0.9 / _SAMPLES_A_SECOND)


def _wait_for_disconnects(address: str) -> Mapping[str, str]:
    """Wait until all other clients have disconnected or a timeout ends. Return the broker's figures."""
    client = RemotingClient(real_world(), address)
    try:
        end = time.monotonic() + _LEFT_SECONDS
        while True:
            info = _runtime_info(client)
            if _shows_no_leftovers(info) or time.monotonic() > end:
                return info
            time.sleep(0.2)
    finally:
        client.close()


def _shows_no_leftovers(info: Mapping[str, str]) -> bool:
    """Return whether the figures show one connection, that of this client, and no held bytes."""
    return info["connections"] == "1" and int(info["heldBytes"]) <= _OWN_REQUEST_BYTES


def _runtime_info(client: RemotingClient) -> Mapping[str, str]:
    try:
        response = client.invoke(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO, 0), _ASK_MS)
    except OSError as error:
        raise ProcessError(f"the broker does not say how it is: {error}") from error
    table: Mapping[str, str] = json.loads(response.body)["table"]
    return table
