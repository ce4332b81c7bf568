from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.bench.figure import Figure
from tests.peers import PEERS, Peer, ours, peer_of
from tests.peers import __main__ as peers_main
from tests.peers.workload import APPENDS_EACH, PRODUCERS, BrokenPromiseError, Log, ToyDisk, body_of, scan
from tornlog import __version__
from tornlog.sim.errors import TaskFailedError

INSTALLED = [peer for peer in PEERS if peer.version is not None]


@pytest.mark.parametrize("peer", INSTALLED, ids=lambda peer: peer.name)
def test_an_installed_tool_runs_the_workload_repeatedly(peer: Peer) -> None:
    sample = replace(peer, runs=5).measure()
    assert sample.rate > 0.0
    assert sample.per_second["operations"] > sample.rate  # a run has more than one
    assert sample.per_second["events"] > 0.0


def test_tornlog_is_the_first_peer_and_a_missing_tool_has_no_version() -> None:
    assert INSTALLED[0] is PEERS[0] is peer_of("tornlog")
    assert replace(PEERS[0], distribution="a-tool-that-nobody-has-made").version is None
    assert len({peer.figure_name for peer in PEERS}) == len(PEERS)


def test_a_tool_with_a_failing_command_raises_an_error() -> None:
    broken = replace(peer_of("tornlog"), name="a tool that nobody has made", launcher="python")
    with pytest.raises(RuntimeError, match="a tool that nobody has made: "):
        broken.measure()


@pytest.mark.parametrize("run", [ours.run])
def test_a_seed_always_gives_the_same_run_of_the_peer_workload(run: Callable[[int], tuple[int, int]]) -> None:
    runs = [run(seed) for seed in range(30)]
    assert runs == [run(seed) for seed in range(30)]
    assert len(set(runs)) > 10


def test_the_peer_workload_finds_a_log_that_acknowledges_before_its_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(log: Log) -> None:
        log.flushed = len(log.appended)

    monkeypatch.setattr(Log, "flush", flush)
    with pytest.raises(TaskFailedError, match=r"BrokenPromiseError: .* are lost of"):
        list(map(ours.run, range(100)))


def log_with_records(records: int) -> tuple[ToyDisk, Log]:
    disk = ToyDisk()
    log = Log(disk)
    for number in range(records):
        log.append(body_of(number % PRODUCERS, number // PRODUCERS))
    return disk, log


def test_a_power_cut_on_the_toy_disk_keeps_synced_data_and_any_subset_of_other_sectors() -> None:
    disk, log = log_with_records(9)  # one more than a segment holds
    log.flush()
    log.append(body_of(0, 4))
    disk.cut_power(lambda: False)
    log.dispatch()
    log.judge(disk.read)
    assert scan(disk.read) == log.appended[:9]

    log = Log(disk := ToyDisk())
    log.append(body_of(0, 0))
    fates = iter((True, True, False, True))
    disk.cut_power(lambda: next(fates))
    log.judge(disk.read)
    assert scan(disk.read) == []

    disk, log = log_with_records(PRODUCERS * APPENDS_EACH)
    disk.cut_power(lambda: True)
    assert scan(disk.read) == log.appended


def test_the_judge_finds_lost_deliveries_and_unknown_records() -> None:
    disk, log = log_with_records(3)
    log.flushed = 3
    log.dispatch()
    disk.cut_power(lambda: False)
    with pytest.raises(BrokenPromiseError, match="are lost of"):
        log.judge(disk.read)

    disk, log = log_with_records(3)
    log.appended[1] = body_of(2, 4)
    with pytest.raises(BrokenPromiseError, match="is no beginning of"):
        log.judge(disk.read)


def test_every_peer_tool_has_a_row_that_shows_whether_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(PEERS[1], distribution="a-tool-that-nobody-has-made")
    present = replace(PEERS[2], distribution="greenlet")
    monkeypatch.setattr(peers_main, "PEERS", (PEERS[0], absent, present))
    per_second = ({"operations": 1_000.0, "events": 20_000.0},)
    printed = StringIO()
    figure = Figure(PEERS[0].figure_name, "runs/s", None, (50.0,), per_second=per_second)
    peers_main.print_peers(Console(file=printed, width=80), [figure], 1)
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    assert all(len(line) <= 80 for line in lines if ": " not in line)
    rows = [line.split() for line in lines if line.startswith((*[peer.name for peer in PEERS],))]
    assert rows[0] == ["tornlog", __version__, "50", "1,000", "20,000", "scheduling", "points"]
    assert rows[1] == ["simloom", "not", "installed"]
    assert rows[2] == ["SimPy", "not", "measured"]
    assert len([row for row in rows if row[0] == "simloom"]) == 2
