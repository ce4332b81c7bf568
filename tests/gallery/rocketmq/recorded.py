"""Recorded real store: records all writes of its JVM to mapped files, and checks its crashes."""

import json
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.conformance import maven
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.content import PAGE_BYTES
from tornlog.faults.disk.export import export_image
from tornlog.faults.disk.image import Image
from tornlog.faults.probe.checks.check import BROKEN
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.programs import CALLS, RecorderChoice
from tornlog.faults.probe.record import FILES, ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Replayer
from tornlog.faults.probe.report import ProbeReport, ViolationGroup
from tornlog.sim.choices import Choices

from .plans import Plan

STATES_MAX = 24
"""Maximum of states per crash."""
_FIRST_STATES_MAX, _FIRST_LIVES_MAX = 4_096, 4
_LOG = f"{FILES}/store/commitlog/{0:020}"
_PROGRAM_SECONDS, _CHECK_SECONDS = 120.0, 60.0
_HERE = Path(__file__).parent
_JUDGE = "tests.gallery.rocketmq.judge_server"
_JVM = (  # UseAVX=2: with AVX-512, bytes are copied by fewer and longer instructions than on most processors
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:UseAVX=2"),
    *(f"--add-opens=java.base/{module}=ALL-UNNAMED" for module in ("java.nio", "jdk.internal.ref", "sun.nio.ch")),
)


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The result of a plan. met: the number of broken states by kind of breach."""

    plan: Plan
    record: ProgramRecord
    report: ProbeReport
    met: Mapping[str, list[ViolationGroup]]
    seconds: float
    bare_cpu_seconds: float
    """CPU time of the whole run without the recorder, including the start of the JVM."""
    recorded_cpu_seconds: float
    """CPU time of the whole run with the recorder."""


def recorded_store(name: str) -> list[str]:
    """Return the command of the real store, fetching and compiling it if necessary. Raises JavaMissing."""
    version = maven.VERSIONS[name]
    sources = {
        each.name: each.read_text("utf-8")
        for part in ("common", version.sources)
        for each in (files(maven.__package__) / "java" / part).iterdir()
        if each.name.endswith(".java")
    }
    sources["RecordedStore.java"] = (_HERE / "RecordedStore.java").read_text("utf-8")
    program = maven.java_program(f"{name}-recorded", [version.artifact], sources)
    return [program.java, *_JVM, "-cp", program.class_path, "RecordedStore"]


def run_plan(command: list[str], plan: Plan, jobs: int = 1, states_max: int = STATES_MAX) -> RecordedPlan:
    """Record a plan and check its crashes.

    Raises ProgramError if it cannot be recorded, RuntimeError if the recording is incomplete or the check has no
    verdict.
    """
    began = perf_counter()
    start = EMPTY if plan.before is None else _damaged(command, plan.before)
    bare_cpu_seconds = _bare_cpu_seconds(command, plan, start)
    used_seconds = _cpu_seconds()
    record = _record(command, plan, start)
    recorded_cpu_seconds = _cpu_seconds() - used_seconds
    judge = CheckServer(shlex.join(["env", f"PYTHONPATH={_HERE.parents[2]}", sys.executable, "-m", _JUDGE, plan.name]))
    with Checkers(judge, jobs, _CHECK_SECONDS) as checkers:
        report = Prober(record, start, checkers, disks=plan.disks, limit=states_max).probe()
    met: dict[str, list[ViolationGroup]] = {}
    for _, group in report.in_order:
        verdict = group.smallest.verdict
        if verdict.outcome != BROKEN:
            raise RuntimeError(f"{plan.name}: the judge gives no verdict: {verdict}")
        for kind in verdict.lines[0].split():
            met.setdefault(kind, []).append(group)
    seconds = perf_counter() - began
    return RecordedPlan(plan, record, report, met, seconds, bare_cpu_seconds, recorded_cpu_seconds)


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its finished children."""
    of_all = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in of_all)


def _bare_cpu_seconds(command: list[str], plan: Plan, start: Image) -> float:
    with TemporaryDirectory() as place:
        export_image(start, FILES, Path(place))
        used_seconds = _cpu_seconds()
        subprocess.run([*command, json.dumps(plan.command)], cwd=place, stdout=subprocess.DEVNULL, check=True)
        return _cpu_seconds() - used_seconds


def _record(command: list[str], plan: Plan, start: Image) -> ProgramRecord:
    recorder = RecorderChoice(CALLS, "step", _PROGRAM_SECONDS)
    record, unlike = recorder.record([*command, json.dumps(plan.command)], start)
    unseen = [f"{one.event}: {one.detail}" for one in record.unseen]
    if unseen or unlike:
        raise RuntimeError(f"{plan.name}: not wholly recorded: {[*unseen, *unlike]}")
    return record


def _damaged(command: list[str], plan: Plan) -> Image:
    """Return a state after a power cut with the last message, but without the body of the one before.

    The store syncs twice a second. A sync between the two messages makes this state impossible, and the plan is then
    repeated a few times. Raises RuntimeError if no run has such a state.
    """
    for _ in range(_FIRST_LIVES_MAX):
        left = _without_the_one_before(_record(command, plan, EMPTY), plan)
        if left is not None:
            return left
    raise RuntimeError(f"{plan.name}: no power cut leaves the last message without the one before")


def _without_the_one_before(record: ProgramRecord, plan: Plan) -> Image | None:
    """Return the recorded log with one page of zeros; None if no tried state has such a page."""
    answers = [json.loads(answer) for answer in record.acknowledged]
    damaged, last = answers[-2]["offset"], answers[-1]["offset"]
    page = -(-damaged // PAGE_BYTES) * PAGE_BYTES + PAGE_BYTES  # a page that has only bytes of the body
    assert page + PAGE_BYTES < last, (damaged, last)
    replayer, chances = Replayer(record, EMPTY), Choices("second life")
    for point in replayer.points():
        if point.acknowledged < len(answers):
            continue
        stream = chances.stream(str(point.operations))
        (killed,) = replayer.disk.crash_states(PROFILES["process-kill"], 1, stream)
        log = killed.image.files[_LOG].held[:]
        wanted = log[:page] + bytes(PAGE_BYTES) + log[page + PAGE_BYTES :]
        for disk in plan.disks:
            for state in replayer.disk.crash_states(PROFILES[disk], _FIRST_STATES_MAX, stream):
                left = state.image.files.get(_LOG)
                if left is not None and left.held[:] == wanted:
                    return state.image
    return None
