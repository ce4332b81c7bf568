"""The real store on its JVM, recorded with each store through its maps, and its crashes judged by the real store."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import perf_counter

from tornlog.faults.probe.checks.check import BROKEN
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer
from tornlog.faults.probe.probe import ProbeReport, ViolationGroup, probe
from tornlog.faults.probe.programs import CALLS, RecorderChoice
from tornlog.faults.probe.record import ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.scenarios.conformance import maven

from .plans import Plan

STATES_MAX = 24
"""Of one crash."""
_PROGRAM_SECONDS, _CHECK_SECONDS = 120.0, 60.0
_HERE = Path(__file__).parent
_JUDGE = "tests.calibration.rocketmq.judge_server"
_JVM = (  # UseAVX=2: with AVX-512, bytes are copied by fewer and longer stores than on most processors
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:UseAVX=2"),
    *(f"--add-opens=java.base/{module}=ALL-UNNAMED" for module in ("java.nio", "jdk.internal.ref", "sun.nio.ch")),
)


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """What came of a plan. met: by the judge's words, the broken states that have it."""

    plan: Plan
    record: ProgramRecord
    report: ProbeReport
    met: Mapping[str, list[ViolationGroup]]
    seconds: float


def recorded_store() -> list[str]:
    """Return the command of the real store as a program, fetched and compiled if it is not yet. Raises JavaMissing."""
    version = maven.VERSIONS["rocketmq-4.9.8"]
    sources = {
        each.name: each.read_text("utf-8")
        for part in ("common", version.sources)
        for each in (files(maven.__package__) / "java" / part).iterdir()
        if each.name.endswith(".java")
    }
    sources["RecordedStore.java"] = (_HERE / "RecordedStore.java").read_text("utf-8")
    program = maven.java_program("rocketmq-4.9.8-recorded", [version.artifact], sources)
    return [program.java, *_JVM, "-cp", program.class_path, "RecordedStore"]


def run_plan(command: list[str], plan: Plan, jobs: int = 1, states_max: int = STATES_MAX) -> RecordedPlan:
    """Record a plan and judge its crashes.

    Raises ProgramError if it cannot be recorded, RuntimeError if what is recorded is not all that it did, or the judge
    gives no verdict.
    """
    began = perf_counter()
    recorder = RecorderChoice(CALLS, "step", _PROGRAM_SECONDS)
    record, unlike = recorder.record([*command, json.dumps(plan.command)], EMPTY)
    unseen = [f"{one.event}: {one.detail}" for one in record.unseen]
    if unseen or unlike:
        raise RuntimeError(f"{plan.name}: not wholly recorded: {[*unseen, *unlike]}")
    judge = CheckServer(shlex.join(["env", f"PYTHONPATH={_HERE.parents[2]}", sys.executable, "-m", _JUDGE, plan.name]))
    with Checkers(judge, jobs, _CHECK_SECONDS) as checkers:
        report = probe(record, EMPTY, checkers, disks=plan.disks, limit=states_max)
    met: dict[str, list[ViolationGroup]] = {}
    for _, group in report.in_order:
        verdict = group.smallest.verdict
        if verdict.outcome != BROKEN:
            raise RuntimeError(f"{plan.name}: the judge gives no verdict: {verdict}")
        for kind in verdict.lines[0].split():
            met.setdefault(kind, []).append(group)
    return RecordedPlan(plan, record, report, met, perf_counter() - began)
