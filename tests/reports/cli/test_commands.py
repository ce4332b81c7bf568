import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.command_line import in_one_line, tornlog, usage_error
from tests.fixtures import BROKEN_SCENARIO
from tornlog.faults.crashes.at_rest import DAMAGES
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.kinds import FAULTS, FaultKind
from tornlog.reports.cli import campaign as run_command
from tornlog.reports.cli import mutation as mutants_command
from tornlog.reports.cli import named
from tornlog.reports.cli.listing import SECTIONS
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.mutation_run import MutantFind, MutantResult
from tornlog.scenarios.campaigns.runner import Batch, Tally, run_batches
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.scenario import POLICIES
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.versions import VERSIONS
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.scenarios.runs.marks import MARKS

NAME = "sync-flush-power-cut"
OTHER = "clean-shutdown"
FIND = MutantFind(NAME, 2, "DUR", 3, 1.0)
BUG, FINDS_BUG = "ack-before-flush", "consumed-message-durable"


@pytest.fixture
def broken_in_catalogue(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(SCENARIOS, BROKEN_SCENARIO.name, BROKEN_SCENARIO)
    return BROKEN_SCENARIO.name


def document_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


# run


def test_a_run_without_violations_prints_its_coverage_and_exits_0() -> None:
    result = tornlog("run", NAME, OTHER, "--seeds", 3)
    assert result.exit_code == 0
    first, *tried, last = result.stdout.splitlines()
    assert re.fullmatch(r"6 seeds in [0-9.]+ s: every promise held", first)
    assert last == first
    assert 4 <= len(tried) <= 5
    assert result.stderr == ""


def test_a_verbose_run_has_a_row_for_every_scenario() -> None:
    result = tornlog("run", NAME, OTHER, "--seeds", 3, "--verbose")
    assert result.exit_code == 0
    assert NAME in result.stdout
    assert OTHER in result.stdout
    assert "injected faults" in [line.strip() for line in result.stdout.splitlines()]
    assert result.stdout.splitlines()[-1] == result.stdout.splitlines()[0]


def test_a_run_without_a_network_does_not_list_network_faults_as_missing() -> None:
    result = tornlog("run", "segment-rollover-crash", "--seeds", 2, "--verbose")
    (never,) = [line for line in result.stdout.splitlines() if line.startswith("  faults that never occurred: ")]
    names = never.partition(": ")[2].split(", ")
    assert "rename undone" in names
    assert {kind.value for kind in FaultKind if kind.row.group == "network"}.isdisjoint(names)
    assert "bit rot" not in names


@pytest.mark.slow
def test_the_report_of_a_run_of_all_scenarios_fits_80_columns() -> None:
    result = tornlog("run", "--seeds", 1, "--verbose")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in SCENARIOS)
    facts = re.compile(r" that never (occurred|met): |^  scenarios \d")  # these lines are not wrapped
    tables = [line for line in result.stdout.splitlines() if not facts.search(line)]
    assert all(len(line.rstrip()) <= 80 for line in tables)
    assert "…" not in result.stdout


def test_the_json_of_a_run_has_a_row_for_every_scenario() -> None:
    document = document_of(tornlog("run", NAME, OTHER, "--seeds", 3, "--json", "-"))
    assert document["format"] == "tornlog-run/1"
    assert document["failures"] == []
    assert document["seconds"] > 0
    assert [row["name"] for row in document["scenarios"]] == [NAME, OTHER]
    first, second = document["scenarios"]
    assert first["claim"] == SCENARIOS[NAME].claim
    assert (first["seeds"], first["violations"], first["errors"], first["nondeterministic"]) == (3, 0, 0, 0)
    assert first["crash_points"] > 0
    assert sum(first["injected"].values()) > 0
    assert list(first["injected"]) == sorted(first["injected"])
    assert second["crash_points"] == 0
    assert set(second["injected"]) <= set(FAULTS)
    assert len(first["digest"]) == 32
    assert first["digest"] != second["digest"]


def rows(result: Result) -> dict[str, dict[str, Any]]:
    """Return the scenarios of a run by name, without times."""
    found = {row["name"]: row for row in document_of(result)["scenarios"]}
    for row in found.values():
        del row["seconds"]
    return found


@pytest.mark.slow
def test_neither_jobs_nor_the_order_of_names_changes_a_digest() -> None:
    alone = rows(tornlog("run", NAME, OTHER, "--seeds", 4, "--json", "-"))
    shared = rows(tornlog("run", OTHER, NAME, "--seeds", "0:4", "--jobs", 2, "--json", "-"))
    assert alone == shared


def test_seeds_can_be_a_number_a_range_or_a_single_seed() -> None:
    def digest(*arguments: object) -> tuple[int, str]:
        row = rows(tornlog("run", NAME, *arguments, "--json", "-"))[NAME]
        return row["seeds"], row["digest"]

    assert digest("--seeds", 3) == digest("--seeds", "0:3") == digest("--seeds", ":3")
    assert digest("--seed", 2) == digest("--seeds", "2:3")
    assert digest("--seed", 2) != digest("--seed", 3)
    assert digest("--seeds", "5:9")[0] == 4


def test_a_scenario_named_twice_runs_once() -> None:
    assert rows(tornlog("run", NAME, NAME, "--seeds", 2, "--json", "-"))[NAME]["seeds"] == 2


def test_the_time_option_ends_a_run_without_seeds() -> None:
    document = document_of(tornlog("run", OTHER, "--time", "0.05s", "--json", "-"))
    assert document["scenarios"][0]["seeds"] > 0
    assert document["seconds"] < 20


def test_without_seeds_or_time_a_run_takes_30_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[object] = []

    def run_nothing(batches: object, *, seconds: float | None, **_: object) -> dict[str, object]:
        asked.append(seconds)
        return {}

    monkeypatch.setattr(run_command, "run_batches", run_nothing)
    for arguments in ((), ("--time", "2m"), ("--seeds", "5"), ("--seeds", "5", "--time", "1.5")):
        assert tornlog("run", *arguments).exit_code == 0
    assert asked == [30.0, 120.0, None, 1.5]


def test_a_run_without_options_writes_its_report_to_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_command, "run_batches", lambda batches, **_: {})
    assert tornlog("run", "--jobs", 1).exit_code == 0
    assert not Path("out").exists()
    assert tornlog("run").stdout.splitlines()[-2] == "out/report.html"
    assert "Nothing was run" in Path("out", "report.html").read_text()


def test_disk_and_policy_options_narrow_a_run() -> None:
    row = rows(tornlog("run", NAME, "--seeds", 6, "--disk", "process-kill", "--json", "-"))[NAME]
    ends = {kind for kind in row["injected"] if kind.removeprefix("crash ") in PROFILES}
    assert ends == {"crash process-kill"}
    digests = {
        rows(tornlog("run", NAME, "--seeds", 2, "--policy", policy, "--json", "-"))[NAME]["digest"]
        for policy in POLICIES
    }
    assert len(digests) == len(POLICIES)


def test_the_determinism_check_does_not_change_the_digest() -> None:
    once = rows(tornlog("run", NAME, "--seeds", 2, "--json", "-"))
    assert rows(tornlog("run", NAME, "--seeds", 2, "--check-determinism", "--json", "-")) == once


def test_json_can_be_written_to_a_file_while_the_table_is_printed(tmp_path: Path) -> None:
    result = tornlog("run", NAME, "--seeds", 1, "--json", tmp_path / "run.json")
    assert "1 seed in" in result.stdout
    assert json.loads((tmp_path / "run.json").read_text())["format"] == "tornlog-run/1"


# Runs with violations


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """The result of a run with violations, and the directory of its failures."""
    out = tmp_path_factory.mktemp("out") / "deep" / "er"
    return tornlog("run", NAME, "--seeds", 3, "--mutant", BUG, "--out", out), out / "failures"


def test_a_broken_promise_exits_1_and_is_reported(left: tuple[Result, Path]) -> None:
    result, _ = left
    assert result.exit_code == 1
    assert "3 seeds in" in result.stdout
    assert "3 broken" in result.stdout
    told = result.stdout
    assert f"broken: {NAME}, seed 0" in told
    assert f"claim: {SCENARIOS[NAME].claim}" in told
    assert "STATUS: " in told
    assert "expected: after the sync" in told
    assert "found:    before it" in told
    assert 0 < told.count(" ms  life-0/") <= 10
    assert told.count("broken: ") == 1, "one failure a scenario is enough to read"


def failure_lines(result: Result) -> list[str]:
    """Return the lines about failures, without the verdict, which has seconds."""
    return result.stdout.partition("\nbroken: ")[2].splitlines()[:-1]


def test_failures_are_written_one_file_per_signature(left: tuple[Result, Path]) -> None:
    result, directory = left
    (path,) = directory.iterdir()
    failure = Failure.from_json(path.read_text())
    assert path.name == f"{failure.signature}.json" == f"{NAME}-status-answer.json"
    assert (failure.seed, failure.mutant) == (0, BUG)
    assert f"reproduce: tornlog replay {path}" in result.stdout


def test_json_names_the_written_failure_files(tmp_path: Path) -> None:
    result = tornlog("run", NAME, "--seed", 0, "--mutant", BUG, "--out", tmp_path, "--json", "-")
    document = document_of(result)
    assert document["scenarios"][0]["violations"] == 1
    assert document["failures"] == [str(tmp_path / "failures" / f"{NAME}-status-answer.json")]


def test_without_failure_files_the_report_has_a_command_that_repeats_the_seed() -> None:
    result = tornlog("run", NAME, "--seed", 3, "--mutant", BUG, "--disk", "strict-posix", "--policy", "pct")
    again = failure_lines(result)[-1].partition("reproduce: tornlog ")[2].split()
    assert again == [*f"run {NAME} --seed 3 --disk strict-posix --policy pct --mutant {BUG}".split()]
    assert failure_lines(tornlog(*again)) == failure_lines(result)


def test_a_run_without_violations_writes_a_report_and_no_failures(tmp_path: Path) -> None:
    tornlog("run", NAME, "--seeds", 1, "--out", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_a_harness_error_exits_3(broken_in_catalogue: str) -> None:
    result = tornlog("run", broken_in_catalogue, NAME, "--seeds", 2)
    assert result.exit_code == 3
    assert "2 lost to errors of the harness" in result.stdout
    assert f"{broken_in_catalogue} --seed 0: Traceback" in result.stderr
    rows = document_of(tornlog("run", broken_in_catalogue, "--seeds", 2, "--json", "-"))["scenarios"]
    assert (rows[0]["errors"], rows[0]["violations"]) == (2, 0)


def test_a_nondeterministic_seed_exits_4(impatient_producers: None) -> None:
    result = tornlog("run", OTHER, "--seeds", 2, "--check-determinism")
    assert result.exit_code == 4
    assert "not deterministic" in result.stdout
    assert f"{OTHER} --seed 0: two runs of the same seed differ: digests" in result.stderr


def test_a_harness_error_determines_the_exit_code_before_a_broken_promise(broken_in_catalogue: str) -> None:
    assert tornlog("run", broken_in_catalogue, NAME, "--seeds", 1, "--mutant", BUG).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "no-such-claim"), "no scenario no-such-claim"),
        (("run", NAME, "--disk", "floppy"), "no disk floppy"),
        (("run", NAME, "--policy", "fair"), "no policy fair"),
        (("run", NAME, "--mutant", "no-such-bug"), "no mutant no-such-bug"),
        (("run", NAME, "--seeds", "many"), "expected N or A:B, found many"),
        (("run", NAME, "--seeds", "1:2:3"), "expected N or A:B, found 1:2:3"),
        (("run", NAME, "--seeds", "0"), "expected at least one seed, found 0"),
        (("run", NAME, "--seeds", "5:5"), "expected at least one seed, found 5:5"),
        (("run", NAME, "--seeds", "1", "--seed", "1"), "found both"),
        (("run", NAME, "--seed", "one"), "--seed"),
        (("run", NAME, "--time", "soon"), "such as 30s or 5m, found soon"),
        (("run", NAME, "--time", ""), "such as 30s or 5m"),
        (("run", NAME, "--time", "0s"), "a finite time above 0, found 0s"),
        (("run", NAME, "--time", "-3s"), "a finite time above 0, found -3s"),
        (("run", NAME, "--time", "nan"), "a finite time above 0, found nan"),
        (("run", NAME, "--time", "infs"), "a finite time above 0, found infs"),
        (("run", NAME, "--jobs", "0"), "--jobs"),
        (("run", NAME, "--out", __file__), "is a file"),
        (("mutants", "no-such-bug"), "no mutant no-such-bug"),
        (("mutants", "--seeds", "0"), "--seeds"),
        (("replay", "/no/such/file.json"), "No such file or directory"),
    ],
)
def test_a_wrong_command_line_exits_2_with_an_explanation(arguments: tuple[str, ...], message: str) -> None:
    result = tornlog(*arguments)
    assert result.exit_code == 2
    assert message in in_one_line(result.stderr)
    assert result.stdout == ""


def test_a_scenario_that_needs_a_missing_package_is_refused_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornlog.scenarios.claims.scenario.HAS_ACCOUNTS", False)
    assert "broker-accounts: needs PyYAML" in usage_error("run", "broker-accounts", "--seeds", 1)

    monkeypatch.setattr(named, "SCENARIOS", {name: SCENARIOS[name] for name in ("broker-accounts", NAME)})
    result = tornlog("run", "--seeds", 1)
    assert result.exit_code == 0
    assert "1 seed in" in result.stdout
    assert "left out, because they need PyYAML" in result.stderr


# list


def test_list_without_arguments_prints_all_names() -> None:
    document = document_of(tornlog("list", "--json", "-"))
    assert {title: list(members) for title, members in document.items()} == {
        "scenarios": list(SCENARIOS),
        "invariants": list(INVARIANTS),
        "faults": list(FAULTS),
        "disks": list(DISK_MODELS),
        "promises": list(DISK_MODELS),
        "crashes": list(PROFILES),
        "damage": list(DAMAGES),
        "marks": list(MARKS),
        "policies": list(POLICIES),
        "mutants": list(MUTANTS),
        "versions": list(VERSIONS),
    }
    assert all(text for members in document.values() for text in members.values())
    assert (*document,) == SECTIONS
    of_its_own = {title: members for title, members in document.items() if title != "promises"}
    assert [title for title, members in of_its_own.items() if len({*members.values()}) < len(members)] == []


def test_list_can_be_limited_to_a_section_and_a_word() -> None:
    document = document_of(tornlog("list", "scenarios", "Rollover", "--json", "-"))
    assert list(document) == ["scenarios"]
    assert "segment-rollover-crash" in document["scenarios"]
    assert all("rollover" in f"{name} {text}".lower() for name, text in document["scenarios"].items())

    result = tornlog("list", "faults", "connection")
    assert result.exit_code == 0
    assert "segment-rollover-crash" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("scenario",), "expected one of scenarios, invariants, faults"),
        (("scenarios", "no such word"), "no name or meaning in scenarios contains no such word"),
    ],
)
def test_list_refuses_an_unknown_section_and_a_word_without_a_match(arguments: tuple[str, ...], reason: str) -> None:
    assert reason in usage_error("list", *arguments)


def test_the_list_command_prints_the_same_names_as_its_tables() -> None:
    result = tornlog("list")
    assert result.exit_code == 0
    for name in (*SCENARIOS, *INVARIANTS, *FAULTS, *DISK_MODELS, *PROFILES, *MARKS, *POLICIES, *MUTANTS, *VERSIONS):
        assert name in result.stdout
    assert all(len(line.rstrip()) <= 80 for line in result.stdout.splitlines())


# replay


@pytest.fixture
def stored(failure: Failure, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "failure.json"
    path.write_text(failure.to_json())
    return path


def test_a_replay_that_reproduces_the_failure_exits_1(stored: Path, failure: Failure) -> None:
    result = tornlog("replay", stored)
    assert result.exit_code == 1
    assert result.stdout.endswith(f"\nreplayed: digest {failure.original.digest}, the same violation\n")
    assert f"broken: {failure.scenario}, seed {failure.seed}" in result.stdout
    assert "again:" not in result.stdout
    assert result.stderr == ""


def test_the_json_of_a_replay_states_whether_the_failure_was_the_same(stored: Path, failure: Failure) -> None:
    result = tornlog("replay", stored, "--json", "-")
    assert result.exit_code == 1
    assert document_of(result) == {
        "format": "tornlog-replay/1",
        "scenario": failure.scenario,
        "seed": failure.seed,
        "same": True,
        "digest": failure.original.digest,
        "violations": [violation.to_json() for violation in failure.violations],
        "gone": [],
        "changed": [],
    }
    assert result.stderr == ""


def edit_failure_file(path: Path, *place: str, **fields: object) -> None:
    """Change fields of a stored failure, or of an object in it."""
    envelope = json.loads(path.read_text())
    holder = envelope["failure"]
    for step in place:
        holder = holder[step]
    holder |= fields
    path.write_text(json.dumps(envelope))


def test_a_replay_names_missing_decisions_and_follows_the_others(stored: Path) -> None:
    record = json.loads(stored.read_text())["failure"]["original"]["record"]
    gone = ["life-0/main @ a label of yore #1 -> life-0/main"] * 30
    edit_failure_file(stored, "original", "record", schedule=record["schedule"] + gone)
    decisions = {**record["decisions"], "of yore": [["torn", 1, 3, 2]]}
    edit_failure_file(stored, "original", "record", decisions=decisions)
    result = tornlog("replay", stored)
    assert result.exit_code == 1
    assert "the same violation in a different run" in result.stdout
    assert "\ngone:\n  decision of yore: torn #1: 2 of 3\n" in result.stdout
    assert f"  switch {gone[0]}\n" in result.stdout


def test_a_replay_of_a_fixed_failure_exits_0(stored: Path) -> None:
    edit_failure_file(stored, mutant=None)
    result = tornlog("replay", stored)
    assert result.exit_code == 0
    assert "this time every promise held" in result.stdout


def test_a_replay_with_a_different_violation_reports_it(stored: Path) -> None:
    original = json.loads(stored.read_text())["failure"]["original"]
    other = {**original["violations"][0], "field": "another", "invariant": "DUR"}
    edit_failure_file(stored, "original", violations=[other])
    result = tornlog("replay", stored)
    assert result.exit_code == 1
    assert "another violation: STATUS: " in result.stdout


def test_a_nondeterministic_replay_exits_4(stored: Path, impatient_producers: None) -> None:
    edit_failure_file(stored, mutant=None)
    assert tornlog("replay", stored).exit_code == 4


def test_a_failure_of_an_unknown_mutant_exits_2(stored: Path) -> None:
    edit_failure_file(stored, mutant="no-such-bug")
    assert "there is no mutant no-such-bug" in usage_error("replay", stored)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[1]", b'{"format": "tornlog-run/1"}'])
def test_a_file_that_is_not_a_failure_exits_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "garbage.json"
    path.write_bytes(content)
    result = tornlog("replay", path)
    assert result.exit_code == 2
    assert "garbage.json" in in_one_line(result.stderr).replace(" ", "")


# shrink


def test_shrink_adds_the_shrunk_run_to_the_failure_file(stored: Path, failure: Failure) -> None:
    result = tornlog("shrink", stored)
    assert result.exit_code == 1
    assert in_one_line(result.stdout).startswith(tuple("123456789"))
    assert re.search(r"messages +\d+ +1\n", result.stdout)
    assert f"broken: {failure.scenario}, shrunk from seed {failure.seed}" in result.stdout
    assert f"reproduce: tornlog replay {stored}" in in_one_line(result.stdout)
    small = Failure.from_json(stored.read_text())
    assert small.original == failure.original
    assert small.shrunk is not None
    assert small.shrunk.size.messages == 1

    replayed = tornlog("replay", stored)
    assert replayed.exit_code == 1
    assert f"digest {small.shrunk.digest}, the same violation" in replayed.stdout
    original = tornlog("replay", stored, "--original")
    assert f"digest {failure.original.digest}, the same violation" in original.stdout


def test_shrink_can_write_the_shrunk_run_to_another_file(stored: Path, tmp_path: Path) -> None:
    before, small = stored.read_text(), tmp_path / "small.json"
    result = tornlog("shrink", stored, "-o", small, "--tries", 20, "--same-promise", "--json", "-")
    assert result.exit_code == 1
    document = document_of(result)
    assert document["format"] == "tornlog-shrink/1"
    assert document["tries"] <= 20
    assert document["after"]["switches"] < document["before"]["switches"]
    assert stored.read_text() == before
    assert Failure.from_json(small.read_text()).shrunk is not None


def test_a_failure_that_does_not_reproduce_is_not_shrunk(stored: Path) -> None:
    edit_failure_file(stored, mutant=None)
    result = tornlog("shrink", stored)
    assert result.exit_code == 3
    assert "not reproduced" in result.stderr


# schedules


def test_a_seed_can_run_under_a_pasted_schedule(tmp_path: Path) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("# a note\nlife-0/main @ ~start #1 -> life-0/nobody\n")
    first = tornlog("run", NAME, "--seed", 3, "--schedule", file, "--json", "-")
    assert first.exit_code == 0
    assert first.stderr == "never happened: life-0/main @ ~start #1 -> life-0/nobody\n"
    file.write_text("")
    default, drawn = (
        tornlog("run", NAME, "--seed", 3, "--schedule", file, "--json", "-"),
        tornlog("run", NAME, "--seed", 3, "--json", "-"),
    )
    assert rows(first)[NAME]["digest"] == rows(default)[NAME]["digest"] != rows(drawn)[NAME]["digest"]


@pytest.mark.parametrize(
    "arguments", [(NAME, "--seeds", 3), (NAME, OTHER, "--seed", 3), (NAME, "--seed", 3, "--check-determinism")]
)
def test_a_schedule_requires_a_single_run(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("")
    assert "expected one scenario and --seed" in usage_error("run", *arguments, "--schedule", file)


def test_an_invalid_schedule_exits_2(tmp_path: Path) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("first a, then b\n")
    assert "line 1: expected TASK @ LABEL #N" in usage_error("run", NAME, "--seed", 3, "--schedule", file)


# mutants


def test_a_found_mutant_exits_0() -> None:
    result = tornlog("mutants", BUG, "--seeds", 20, "--scenario", FINDS_BUG)
    assert result.exit_code == 0
    assert "1 of 1 mutants found" in result.stdout
    assert f"STATUS in {FINDS_BUG}" in result.stdout


def test_the_failure_that_finds_a_mutant_can_be_shrunk_and_written(tmp_path: Path) -> None:
    result = tornlog("mutants", BUG, "--shrink", "--out", tmp_path, "--json", tmp_path / "mutants.json")
    assert result.exit_code == 0
    assert "shrunk to 1 messages, " in result.stdout
    (row,) = json.loads((tmp_path / "mutants.json").read_text())
    assert row["shrunk"]["messages"] == 1
    assert row["shrunk"]["tries"] > 1
    (left,) = (tmp_path / "failures").iterdir()
    assert tornlog("replay", left).exit_code == 1


def test_the_json_of_mutants_is_a_list() -> None:
    result = tornlog("mutants", BUG, BUG, "--scenario", FINDS_BUG, "--json", "-")
    (row,) = json.loads(result.stdout)
    assert (row["id"], row["found"], row["invariant"], row["shrunk"]) == (BUG, True, "STATUS", None)
    assert row["seeds"] >= row["reached"] >= 1
    assert row["core_seconds"] > 0
    assert row["scenario"] == FINDS_BUG


@pytest.mark.parametrize(
    ("mutant_result", "told"),
    [
        (MutantResult(BUG, (), 500, 1.0, reached=0, bit=0), f"{BUG}: never reached"),
        (MutantResult(BUG, (), 500, 1.0, reached=9, bit=0), f"{BUG}: reached in 9 seeds, never bit"),
        (MutantResult(BUG, (), 500, 1.0, reached=9, bit=1), f"{BUG}: reached in 9 seeds, bit in 1 seed, not seen"),
        (
            MutantResult(BUG, (FIND,), 3, 1.0, reached=3, bit=2, clean_violation="DUR: m1 is gone"),
            f"{BUG}: also without the bug: DUR: m1 is gone",
        ),
    ],
)
def test_a_surviving_mutant_or_a_failing_unmodified_store_exits_1(
    monkeypatch: pytest.MonkeyPatch, mutant_result: MutantResult, told: str
) -> None:
    monkeypatch.setattr(mutants_command, "run_mutants", lambda names, settings, **options: iter([mutant_result]))
    result = tornlog("mutants", BUG)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert told in result.stdout


def test_scenarios_left_out_by_a_time_budget_are_named_in_all_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run_one(batches: Iterable[Batch], **_: object) -> dict[str, Tally]:
        return run_batches([batch for batch in batches if batch.scenario.name == NAME][:1])

    monkeypatch.setattr(run_command, "run_batches", run_one)
    files = [str(tmp_path / name) for name in ("run.json", "junit.xml", "summary.md")]
    result = tornlog(
        *("run", NAME, OTHER, "--seeds", 1, "--out", tmp_path / "out"),
        *("--json", files[0], "--junit", files[1], "--summary", files[2]),
    )
    assert result.exit_code == 0
    verdict = "1 of 2 scenarios not run, no promise broken"
    assert verdict in result.stdout.splitlines()[0]
    assert f"  not run  {OTHER}" in result.stdout.splitlines()
    document = json.loads(Path(files[0]).read_text())
    assert (document["not_run"], document["interrupted"]) == ([OTHER], False)
    assert 'message="not run: time limit reached"' in Path(files[1]).read_text()
    summary = Path(files[2]).read_text()
    assert verdict in summary.splitlines()[0]
    assert f"| {OTHER} | not run |" in summary
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<div class="verdict unsure">' in page
    assert verdict in page
    required = tornlog("run", "--seeds", 1, "--require-coverage")
    assert required.exit_code == 1
    assert "scenarios that never occurred: " in required.stdout
