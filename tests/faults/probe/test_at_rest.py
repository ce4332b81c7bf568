"""Damage at rest: synced data is damaged, and the check says whether the program has noticed it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import Result

from tests.command_line import tornlog
from tornlog.faults.crashes.at_rest import AT_REST, DAMAGES, DamagedState
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.checks.check import PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import DISK_STREAM, Replayer
from tornlog.faults.probe.report import ProbeReport
from tornlog.faults.probe.story import damage_of
from tornlog.faults.probe.visits import VisitPlan
from tornlog.sim.choices import Choices

Probed = tuple[Result, dict[str, Any]]
LOG = """
    import os, zlib
    log = os.open("log", os.O_CREAT | os.O_RDWR)
    os.fsync(os.open(".", os.O_RDONLY))
    for number in range(3):
        data = b"%d is an order" % number
        os.write(log, (data + b" %d" % zlib.crc32(data)).ljust(4096))
        os.fsync(log)
        print(number, flush=True)
    """
FIND = """
    import pathlib, zlib

    def find(directory, acknowledged, with_checksum):
        log = (pathlib.Path(directory) / "log").read_bytes() if acknowledged else b""
        for number in acknowledged:
            data, checksum = log[4096 * int(number) :][:4096].rstrip().rpartition(b" ")[::2]
            wanted = b"%d is an order" % int(number)
            if with_checksum and (checksum != b"%d" % zlib.crc32(data) or not data.startswith(b"%d " % int(number))):
                yield f"noticed: record {number} is corrupt"
            elif data != wanted:
                yield f"order {number} is wrong"
    """
RUNNERS = {
    "python": "def check(directory, acknowledged): return find(directory, acknowledged, WITH_CHECKSUM)",
    "raising": "def check(directory, acknowledged):\n    for one in find(directory, acknowledged, WITH_CHECKSUM):"
    "\n        raise ValueError(one)",
    "command": "import sys\nfound = list(find('.', sys.stdin.read().split(), WITH_CHECKSUM))\n"
    "print(*found, sep='\\n')\nsys.exit(bool(found))",
    "server": "import json, sys\nfor line in sys.stdin:\n    one = json.loads(line)\n    broken = list(find("
    "one['directory'], one['acknowledged'], WITH_CHECKSUM))\n    print(json.dumps({'broken': broken}), flush=True)",
}
SQLITE = """
    import sqlite3
    db = sqlite3.connect("db")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, text TEXT)")
    for number in range(2):
        with db:
            db.execute("INSERT INTO orders VALUES (?, ?)", (number, f"order {number} " * 100))
        print(number, flush=True)
    """
SQLITE_CHECK = """
    import sqlite3

    def check(directory, acknowledged):
        try:
            db = sqlite3.connect("db")
            (found,), *_ = db.execute("PRAGMA integrity_check")
            if found != "ok":
                yield f"noticed: {found.splitlines()[0]}"
                return
            rows = dict(db.execute("SELECT number, CAST(text AS BLOB) FROM orders") if acknowledged else ())
        except sqlite3.DatabaseError as error:
            yield f"noticed: {error}"
            return
        for number in map(int, acknowledged):
            if rows.get(number) != f"order {number} ".encode() * 100:
                yield f"order {number} is wrong"
    """
PAGE = 4096


@pytest.fixture
def probed(tmp_path: Path) -> Callable[..., Probed]:
    """Return a function that probes a program on all disks of damage at rest. options: further ones."""

    def probed(program: str, *options: str) -> Probed:
        script, kept = tmp_path / "program.py", tmp_path / "probe.json"
        script.write_text(dedent(program))
        disks = [word for disk in DAMAGES for word in ("--disk", disk)]
        arguments = ["probe", "--record", "calls", *disks, "--json", str(kept), "--out", str(tmp_path / "out")]
        result = tornlog(*arguments, *options, "--", script, columns=120)
        return result, json.loads(kept.read_text()) if kept.exists() else {}

    return probed


def check_options(directory: Path, runner: str, *, with_checksum: bool) -> tuple[str, str]:
    """Write a check of a kind to the directory. Return the options that name it."""
    path = directory / ("check" if runner == "command" else "check.py")
    lines = RUNNERS[runner].replace("WITH_CHECKSUM", str(with_checksum))
    path.write_text(f"#!{sys.executable}\n{dedent(FIND)}\n{lines}\n")
    path.chmod(0o755)
    return ("--check-server", f"{sys.executable} {path}") if runner == "server" else ("--check", str(path))


@pytest.mark.parametrize("runner", RUNNERS)
def test_noticed_damage_is_counted_and_is_no_breach(probed: Callable[..., Probed], tmp_path: Path, runner: str) -> None:
    result, found = probed(LOG, *check_options(tmp_path, runner, with_checksum=True))

    assert result.exit_code == 0, result.output
    assert [one["disk"] for one in found["damage"]] == sorted(DAMAGES)
    for one in found["damage"]:
        assert (one["file"], one["unnoticed"], one["noticed"] + one["harmless"]) == ("log", 0, one["states"])
        assert one["noticed"] > 0
    assert {(disk["broken"], disk["crashes"]) for disk in found["disks"]} == {(0, 3)}
    assert "noticed  unnoticed  harmless" in result.stdout


@pytest.mark.parametrize("runner", ["python", "command"])
def test_wrong_data_after_damage_is_a_breach_that_replays(
    probed: Callable[..., Probed], tmp_path: Path, runner: str
) -> None:
    options = check_options(tmp_path, runner, with_checksum=False)
    result, found = probed(LOG, *options)

    assert result.exit_code == 1, result.output
    (breach,) = found["breaches"]
    assert breach["signature"] == "order # is wrong"
    assert breach["disks"].keys() == AT_REST
    assert all(one["noticed"] == 0 < one["unnoticed"] for one in found["damage"])
    assert breach["smallest"]["losses"][0]["what"].endswith("in page 0 of log flipped")
    assert "write log [0, 4096)" in breach["smallest"]["losses"][0]["by"]
    assert "broken by damage at rest: order # is wrong" in result.stdout
    replay = ["probe", "--replay", breach["file"]]
    assert tornlog(*replay).exit_code == 1
    check_options(tmp_path, runner, with_checksum=True)
    mended = tornlog(*replay)
    assert (mended.exit_code, mended.stdout.strip()) == (0, "the check now accepts this state")


def test_sqlite_notices_damage_of_its_structure_but_not_of_rows(probed: Callable[..., Probed], tmp_path: Path) -> None:
    check = tmp_path / "check.py"
    check.write_text(dedent(SQLITE_CHECK))
    result, found = probed(SQLITE, "--check", str(check))

    assert result.exit_code == 1, result.output
    counts = {one["disk"]: one for one in found["damage"]}
    assert counts["bit-flip"]["noticed"] > 0
    assert counts["bit-flip"]["unnoticed"] > 0
    assert counts["misdirected-write"]["unnoticed"] == 0
    assert [breach["signature"] for breach in found["breaches"]] == ["order # is wrong"]


def test_data_that_was_never_synced_is_not_damaged(probed: Callable[..., Probed], tmp_path: Path) -> None:
    options = check_options(tmp_path, "python", with_checksum=False)
    result, found = probed(LOG.replace("os.fsync(log)", "pass"), *options)

    assert (result.exit_code, found["damage"]) == (0, [])
    assert found["never_injected"] == [DAMAGES[disk].fault.value for disk in DAMAGES]


def test_damage_alone_does_not_serve_faults_and_recoveries(probed: Callable[..., Probed], tmp_path: Path) -> None:
    options = check_options(tmp_path, "python", with_checksum=True)
    refused, _ = probed(LOG, *options, "--recovery-crashes", "1")
    more = ("--recovery-crashes", "1", "--disk", "process-kill", "--record", "python")
    tried, found = probed(LOG, *options, *more)
    kept = tmp_path / "alone.json"
    alone = ["probe", *options, *more, "--json", str(kept), "--", str(tmp_path / "program.py")]
    tornlog(*alone)

    assert refused.exit_code == 2
    assert "expected a kind of crash" in refused.stderr
    assert tried.exit_code == 0, tried.output
    assert found["recoveries"] == json.loads(kept.read_text())["recoveries"]
    assert found["recoveries"]["recorded"] > 0


# -- states of a hand-written record --------------------------------------------------------------

OLD, NEW, OTHER = b"old " * 1024, b"new " * 1024, b"other " * 600
STEPS = (
    Step("create", "/files/log", file=0),
    Step("write", file=0, data=OLD + OLD),
    Step("link", "/files/log", "/files/twin"),
    Step("sync", file=0),
    Step("write", file=0, data=NEW),
    Step("sync", file=0),
    Step("create", "/files/side", file=1),
    Step("write", file=1, data=OTHER),
    Step("sync", file=1),
    Step("create", "/files/unsynced", file=2),
    Step("write", file=2, data=NEW),
    Step("create", "/files/failed", file=3),
    Step("write", file=3, data=NEW),
    Step("failed sync", file=3),
    Step("acknowledge", "all"),
)
RECORD = ProgramRecord((), STEPS, ((),))
START = Image({"/files/given": FileImage(OTHER, 0)}, EMPTY.directories)


def damaged_states(disk: str, limit: int = 100, start: Image = EMPTY) -> tuple[Replayer, Any, list[DamagedState]]:
    steps = tuple(
        Step(one.kind, one.path, one.target, one.file + len(start.files) * (one.file >= 0), data=one.data)
        for one in STEPS
    )
    replayer = Replayer(ProgramRecord((), steps, ((),)), start, disks=[disk])
    list(replayer.points())
    states = replayer.states(disk, limit, Choices("1").stream("states"))
    return replayer, states, list(states)  # type: ignore[arg-type]


@pytest.mark.parametrize("disk", DAMAGES)
def test_every_state_damages_synced_data_alone_and_can_be_drawn_again(disk: str) -> None:
    _, states, made = damaged_states(disk)
    undamaged, *damaged = made

    assert undamaged.damage is None
    assert len(damaged) == len({one.digest for one in damaged}) > 1
    for state in made:
        decisions = states.decisions(state, DISK_STREAM)
        drawn = states.drawn(Choices.for_replay(decisions).stream(DISK_STREAM))
        assert (drawn.digest, drawn.damage) == (state.digest, state.damage)
        assert state.image.digest() == state.digest
        assert state.image.files["/files/twin"] == state.image.files["/files/log"]
        for name in ("unsynced", "failed"):
            assert state.image.files[f"/files/{name}"].content == NEW
    assert [one.digest for one in damaged_states(disk)[2]] == [one.digest for one in made]


def test_a_lost_write_brings_back_the_content_before_the_last_sync() -> None:
    replayer, _, (_, *damaged) = damaged_states("lost-write")
    logs = {one.damage.place.page: one for one in damaged if one.damage and one.damage.place.path == "/files/log"}

    assert logs.keys() == {0, 1}
    assert logs[0].image.files["/files/log"].content == OLD + OLD
    assert logs[1].image.files["/files/log"].content == NEW + bytes(PAGE)
    (newest,), (first,) = (damage_of(logs[page], replayer.steps_of, "lost-write") for page in (0, 1))
    assert newest == ("page 0 of log has the content before its last sync", (4,))
    assert first.steps == (1,)


def test_a_misdirected_write_damages_two_pages_also_of_different_files() -> None:
    _, _, (_, *damaged) = damaged_states("misdirected-write")
    contents = [{path: file.content for path, file in one.image.files.items()} for one in damaged]

    assert {"/files/log": OLD + NEW, "/files/side": OTHER} in [
        {path: one[path] for path in ("/files/log", "/files/side")} for one in contents
    ]
    assert {"/files/log": OLD + OLD, "/files/side": NEW[: len(OTHER)]} in [
        {path: one[path] for path in ("/files/log", "/files/side")} for one in contents
    ]


def test_a_limit_leaves_damage_of_each_file() -> None:
    _, states, (_, *damaged) = damaged_states("bit-flip", 4, START)

    assert {one.damage.place.path for one in damaged if one.damage} == {"/files/given", "/files/log", "/files/side"}
    assert states.was_cut


def report(check_file: Callable[[str], Path], lines: str, *disks: str) -> ProbeReport:
    with Checkers(PythonCheck(check_file(lines)), 0, 10.0) as checkers:
        return Prober(RECORD, EMPTY, checkers, disks=disks).probe()


@pytest.mark.parametrize("disk", ["process-kill", "bit-flip"])
def test_damage_that_is_noticed_in_undamaged_data_is_a_breach(check_file: Callable[[str], Path], disk: str) -> None:
    lines = "def check(directory, acknowledged): return 'noticed: damage' if acknowledged else None"

    assert [*report(check_file, lines, disk).breaches] == ["noticed: damage"]


def test_a_breach_beside_noticed_damage_counts(check_file: Callable[[str], Path]) -> None:
    lines = f"""
        def check(directory, acknowledged):
            if acknowledged and (directory / "side").read_bytes() != {OTHER!r}:
                yield "noticed: damage"
                yield "side is wrong"
        """
    found = report(check_file, lines, "zeroed-sector")

    assert [*found.breaches] == ["side is wrong"]
    assert found.damage["zeroed-sector", "/files/side"].unnoticed == found.counts["zeroed-sector"].broken > 0
    assert found.damage["zeroed-sector", "/files/log"].harmless > 0
    assert (found.points, found.counts["zeroed-sector"].crashes) == (1, 1)


def test_the_end_of_a_run_is_tried_without_a_promise(check_file: Callable[[str], Path]) -> None:
    record = ProgramRecord((), STEPS[:-1], ((),))
    with Checkers(PythonCheck(check_file("def check(directory, acknowledged): pass")), 0, 10.0) as checkers:
        found = Prober(record, EMPTY, checkers, disks=("process-kill", "bit-flip")).probe()

    assert found.counts["bit-flip"].crashes == 1
    assert found.points == found.counts["process-kill"].crashes
    assert found.is_finished


def sampled(lines: str, check_file: Callable[[str], Path], plan: VisitPlan, *disks: str) -> ProbeReport:
    steps = (*STEPS, *(Step("acknowledge", f"more {number}") for number in range(9)), Step("write", file=1, data=OTHER))
    with Checkers(PythonCheck(check_file(lines)), 0, 10.0) as checkers:
        return Prober(ProgramRecord((), steps, ((),)), EMPTY, checkers, disks=disks, plan=plan).probe()


@pytest.mark.parametrize("others", [(), ("process-kill", "strict-posix")])
def test_a_sample_of_crash_points_leaves_out_no_damage(
    check_file: Callable[[str], Path], others: tuple[str, ...]
) -> None:
    lines = f"""
        def check(directory, acknowledged):
            if acknowledged and (directory / "side").read_bytes() != {OTHER!r}:
                yield "side is wrong"
        """
    every, *samples = (
        sampled(lines, check_file, plan, *others, "bit-flip")
        for plan in (VisitPlan(), VisitPlan(3, is_even=True), VisitPlan(is_even=True))
    )

    for sample in samples:
        assert sample.counts["bit-flip"] == every.counts["bit-flip"]
        assert sample.damage == every.damage
        assert sample.damage_left == 0
    assert every.counts["bit-flip"].crashes == 11
    assert every.damage["bit-flip", "/files/side"].unnoticed > 0
    assert [one.points for one in samples] == ([3, every.points] if others else [11, 11])


def test_the_first_breach_by_damage_ends_a_probe_but_noticed_or_known_damage_does_not(
    check_file: Callable[[str], Path],
) -> None:
    lines = f"""
        def check(directory, acknowledged):
            if acknowledged and (directory / "side").read_bytes() != {OTHER!r}:
                yield "{{}}"
        """
    wrong, noticed = lines.format("side is wrong"), lines.format("noticed: side")
    plan, knowing = VisitPlan(stops_at_first=True), VisitPlan(stops_at_first=True, known=frozenset(["side is wrong"]))
    ended, held, accepted = (
        sampled(text, check_file, one, "bit-flip") for text, one in ((wrong, plan), (noticed, plan), (wrong, knowing))
    )

    assert (ended.is_finished, [*ended.breaches]) == (False, ["side is wrong"])
    assert (held.is_finished, held.breaches) == (True, {})
    assert (accepted.is_finished, [*accepted.breaches]) == (True, ["side is wrong"])
    assert ended.judged < accepted.judged
