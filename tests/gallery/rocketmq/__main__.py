"""`python -m tests.gallery.rocketmq`: reproduces published findings in writes of the real store.

The exit code is 1 if an expected finding is missing, 2 without Maven or a JDK.
"""

from itertools import chain
from typing import Annotated

import typer

from tests.conformance.maven import JavaMissing
from tornlog.faults.probe.report import ViolationGroup
from tornlog.faults.probe.story import step_text
from tornlog.reports.cli.console import OUT, plain_table, print_error

from .plans import FINDINGS, PLANS
from .recorded import RecordedPlan, recorded_store, run_plan

_SAID_MAX = 120
_Example = tuple[RecordedPlan, ViolationGroup]


def main(jobs: Annotated[int, typer.Option(min=1, help="Processes that check, each with a JVM.")] = 1) -> None:
    """Record the real store, open its crash images with it, and print the reproduced findings."""
    try:
        commands = {version: recorded_store(version) for version in dict.fromkeys(plan.version for plan in PLANS)}
    except JavaMissing as missing:
        print_error(str(missing))
        raise typer.Exit(2) from missing
    examples: dict[str, _Example] = {}
    plans = plain_table(
        "recorded",
        ("plan", "disks"),
        ("steps", "promises", "states", "checked", "s", "bare CPU s", "recorded", "times"),
    )
    runs = []
    for plan in PLANS:
        run = run_plan(commands[plan.version], plan, jobs)
        counts = (len(run.record.steps), len(run.record.acknowledged), run.report.states, run.report.judged)
        counted = [*(f"{count:,}" for count in counts), f"{run.seconds:.0f}"]
        plans.add_row(plan.name, " ".join(plan.disks), *counted, *_cost([run]))
        runs.append(run)
        for name, kind in FINDINGS[plan.version].items():
            found = [(run, group) for group in run.met.get(kind, ())]
            best = min([*found, *([examples[name]] if name in examples else [])], key=_simplicity, default=None)
            if best is not None:
                examples[name] = best
    plans.add_row("all", "", *[""] * 5, *_cost(runs))
    OUT.print(plans)
    _print_findings(examples)
    raise typer.Exit(0 if len(examples) == sum(map(len, FINDINGS.values())) else 1)


def _cost(runs: list[RecordedPlan]) -> tuple[str, str, str]:
    """Return the CPU seconds of runs without and with the recorder, and their ratio."""
    bare, recorded = (sum(getattr(run, name) for run in runs) for name in ("bare_cpu_seconds", "recorded_cpu_seconds"))
    return f"{bare:.1f}", f"{recorded:.1f}", f"{recorded / bare:.2f}"


def _simplicity(example: _Example) -> tuple[int, tuple[int, int, int, bool, bool]]:
    """Return the sort key of an example: fewer kinds of breach in one state, then a smaller case."""
    _, group = example
    return len(group.smallest.verdict.lines[0].split()), group.smallest.size


def _print_findings(examples: dict[str, _Example]) -> None:
    for name, kind in chain.from_iterable(kinds.items() for kinds in FINDINGS.values()):
        if name not in examples:
            print_error(f"{name}: not met")
            continue
        run, group = examples[name]
        case = group.smallest
        moment = step_text(run.record, case.point.step).strip() if case.point.step >= 0 else "0 the start"
        said = next(line for line in case.verdict.lines[1:] if line.startswith(f"{kind} "))
        where = f"{case.disk}, {group.states} states of {run.plan.name}, at least {case.losses} losses"
        OUT.print(f"{name}: {where}; behind step {moment}: {said[:_SAID_MAX]}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    typer.run(main)
