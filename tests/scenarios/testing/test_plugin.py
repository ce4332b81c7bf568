"""The pytest plugin: marks, options and reports, in sessions with the wheel installed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.ci

Done = CompletedProcess[str]

HEAD = "import pytest\nfrom tornlog.faults.simulation.promises import PromiseBroken\n"
SAVES = """
def save(world, value):
    world.files.write("/new", value)
    world.files.sync("/new")
    world.files.rename("/new", "/file")
    world.files.sync_directory("/")
"""
SOUND = f"""{HEAD}{SAVES}
def test_saved(simulation):
    simulation.live("one", lambda world: save(world, b"1"), crash_within=9)
    simulation.live("two", lambda world: world.files.status("/file"))
"""
LOST = f"""{HEAD}
@pytest.mark.tornlog(seeds=40)
@pytest.mark.parametrize("value", ["a b", "c"])
class TestFile:
    def test_written(self, simulation, value, capsys):
        def judge(world):
            assert world.files.status("/file"), "gone"

        simulation.live("one", lambda world: world.files.write("/file", value.encode()), crash_within=9)
        simulation.live("two", judge)
"""


@pytest.mark.slow
def test_an_unmarked_test_with_a_simulation_runs_for_a_hundred_seeds(tests_of: Callable[..., Done]) -> None:
    done = tests_of(SOUND)

    assert done.returncode == 0, done.stdout
    assert "1 test, 100 seeds, 100 crash points" in done.stdout
    assert "(name lost" in done.stdout or "(page" in done.stdout or "(rename" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("options", "seeds"), [("--tornlog-seeds 5:8", "3 seeds"), ("--tornlog-seed 5", "1 seed")])
def test_options_override_the_seeds_of_a_mark(options: str, seeds: str, tests_of: Callable[..., Done]) -> None:
    done = tests_of(SOUND, options)

    assert done.returncode == 0, done.stdout
    assert f"1 test, {seeds}, " in done.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--tornlog-seeds 0", "--tornlog-seeds: expected at least one seed, found 0"),
        ("--tornlog-seed x", "--tornlog-seed: expected a number, found x"),
        ("--tornlog-seed 1 --tornlog-seeds 2", "--tornlog-seed: expected --seed or --seeds, found both"),
        ("--tornlog-time soon", "--tornlog-time: expected a time such as 30s or 5m, found soon"),
        ("--tornlog-out test_it.py", "test_it.py: File exists"),
        ("--tornlog-replay gone.json", "gone.json: No such file or directory"),
        ("--tornlog-replay test_it.py", "test_it.py: not JSON: "),
    ],
)
def test_an_invalid_option_is_a_usage_error(options: str, reason: str, tests_of: Callable[..., Done]) -> None:
    done = tests_of(SOUND, options)

    assert done.returncode == 4
    assert reason in done.stderr
    assert done.stderr.count("ERROR") == 1
    assert "test_saved" not in done.stdout


def test_an_async_test_fails_because_no_seed_would_run_it(tests_of: Callable[..., Done]) -> None:
    done = tests_of("async def test_it(simulation):\n    raise ValueError\n", "")

    assert done.returncode == 1
    assert "tornlog: expected a plain function, found an async one" in done.stdout


@pytest.mark.slow
def test_no_seed_starts_after_the_time_limit_but_one_always_runs(tests_of: Callable[..., Done]) -> None:
    done = tests_of(SOUND, "--tornlog-seeds 1000000 --tornlog-time 0.000001s")

    assert done.returncode == 0, done.stdout
    assert "1 test, 1 seed, " in done.stdout
    assert "time was up in 1 test" in done.stdout


@pytest.mark.slow
def test_each_parametrised_test_has_its_own_failure_file(
    tests_of: Callable[..., Done], shell: Callable[..., Done], tmp_path: Path
) -> None:
    done = tests_of(LOST, "--tornlog-out out --junit-xml junit.xml")

    assert done.returncode == 1
    assert done.stdout.count("AssertionError: gone") >= 2
    assert "raised    test_it.py:9 in judge" in done.stdout
    out = tmp_path / "project" / "out"
    report = json.loads((out / "report.json").read_text())["tests"]
    assert [one["id"] for one in report] == [
        "test_it.py::TestFile::test_written[a b]",
        "test_it.py::TestFile::test_written[c]",
    ]
    assert len({one["failure"] for one in report}) == 2
    for one in report:
        envelope = json.loads((tmp_path / "project" / one["failure"]).read_text())
        assert (envelope["kind"], envelope["test"]) == ("own code", one["id"])
        assert shell(one["again"], tmp_path / "project").returncode == 1
        timeline = f"out/timelines/{Path(one['failure']).stem}.html"
        assert f"  timeline  {timeline}\n" in done.stdout
        assert "test_it.py::TestFile::test_written" in (tmp_path / "project" / timeline).read_text()
    cases = list(ElementTree.parse(tmp_path / "project" / "junit.xml").iter("testcase"))
    assert ["gone" in str(case.find("failure").get("message")) for case in cases] == [True, True]  # type: ignore[union-attr]


ENDINGS = {
    "simulation.live('one', lambda world: pytest.fail('no good'), crash_within=1)": "AssertionError: no good",
    "pytest.fail('not even begun')": "AssertionError: not even begun",
    "simulation.live('one', lambda world: open('/etc/hostname'))": "test_it.py:9",
    "SEEN.append(1); assert len(SEEN) != 3, 'sometimes'": "the run cannot be repeated",
}
"""How a test ends -> the report of that ending."""


@pytest.mark.slow
def test_harness_errors_and_endless_runs_are_reported_with_their_seed(tests_of: Callable[..., Done]) -> None:
    tests = (f"def test_{number}(simulation):\n    {body}\n" for number, body in enumerate(ENDINGS))
    skipped = "def test_not(simulation):\n    pytest.skip('not here')\n"

    done = tests_of(f"{HEAD}SEEN = []\n{''.join(tests)}{skipped}")

    assert "4 failed, 1 skipped" in done.stdout
    assert done.stdout.count("\nseed ") == len(ENDINGS)
    for reason in ENDINGS.values():
        assert reason in done.stdout


@pytest.mark.slow
def test_a_fixture_cannot_use_the_simulation(tests_of: Callable[..., Done]) -> None:
    fixture = "@pytest.fixture\ndef files(simulation):\n    return simulation.faults\n"
    text = f"{HEAD}{fixture}def test_it(files): ...\n"

    done = tests_of(text)

    assert done.returncode == 1
    assert "which only the test function receives" in done.stdout


FAULTY = f"""{HEAD}{SAVES}
from dataclasses import replace

def run(simulation):
    simulation.faults = replace(simulation.faults, failed_read_chance=0.5)
    simulation.live("one", lambda world: save(world, b"1"))

@pytest.mark.tornlog(seeds=3)
def test_warned_of(simulation): run(simulation)

@pytest.mark.tornlog(seeds=3, never_injected="fail")
def test_failed(simulation): run(simulation)

@pytest.mark.tornlog(seeds=3, never_injected="ignore")
def test_ignored(simulation): run(simulation)

@pytest.mark.tornlog(seeds=3, must_inject=["crash", "page lost"])
def test_without_what_it_must_have(simulation): run(simulation)
"""
NEVER = "enabled, but never injected in 3 seeds: failed read"


def test_a_required_fault_that_was_never_injected_fails_the_test(tests_of: Callable[..., Done]) -> None:
    done = tests_of(FAULTY)

    assert "2 failed, 2 passed, 1 warning" in done.stdout
    assert f"FaultNeverInjected: {NEVER}" in done.stdout
    assert done.stdout.count(f"_\n{NEVER}\n") == 1
    assert "no violation in 3 seeds, but these never happened: crash, page lost" in done.stdout


@pytest.mark.slow
def test_a_missing_fault_warning_raised_as_an_error_has_no_traceback(tests_of: Callable[..., Done]) -> None:
    done = tests_of(FAULTY, "-W error")

    assert "3 failed, 1 passed" in done.stdout
    assert f"\n{NEVER}\n" in done.stdout
    assert "marked.py" not in done.stdout


@pytest.mark.slow
def test_with_fewer_seeds_than_the_mark_missing_faults_do_not_fail_the_test(tests_of: Callable[..., Done]) -> None:
    done = tests_of(FAULTY, "-W error --tornlog-seed 1")

    assert "4 passed" in done.stdout


WRONG_MARKS = {
    "sceds=3": "sceds",
    "seeds=0, scenario='segment-rollover-crash'": "seeds: expected at least one seed, found 0",
    "scenario='no-such'": "no scenario no-such",
    "scenario='segment-rollover-crash', disk='floppy'": "disk: expected one of",
    "scenario='segment-rollover-crash', mutant='no-such'": "no mutant no-such",
    "scenario='segment-rollover-crash', ranges={'colour': (1,)}": "ranges: colour: expected a knob of a plan",
    "disk='xfs'": "disk: expected only together with",
    "must_inject=['rain']": "must_inject: no fault rain",
    "never_injected='shout'": "never_injected: expected one of ignore, warn, fail, found shout",
    "": "expected the fixture `simulation` or scenario=..., found neither",
}


def test_an_invalid_mark_fails_its_test(tests_of: Callable[..., Done]) -> None:
    tests = (f"@pytest.mark.tornlog({mark})\ndef test_{n}(): ...\n" for n, mark in enumerate(WRONG_MARKS))

    done = tests_of(f"{HEAD}{''.join(tests)}def test_other(): ...\n")

    assert f"{len(WRONG_MARKS)} failed, 1 passed" in done.stdout
    for reason in WRONG_MARKS.values():
        assert f"tornlog: {reason}" in done.stdout or f"argument '{reason}'" in done.stdout


def test_a_broken_promise_of_a_scenario_is_reported_and_saved(
    tests_of: Callable[..., Done], shell: Callable[..., Done], tmp_path: Path
) -> None:
    mark = "scenario='sync-flush-power-cut', mutant='ack-before-flush', seeds=20"
    text = f"import pytest\n@pytest.mark.tornlog({mark})\ndef test_it(): ...\n"

    done = tests_of(text, "--tornlog-out out")

    assert done.returncode == 1
    assert "STATUS: " in done.stdout
    assert "was answered OK before it was durable" in done.stdout
    (one,) = json.loads((tmp_path / "project" / "out" / "report.json").read_text())["tests"]
    assert one["again"].startswith("tornlog replay out/failures/")
    again = shell(one["again"], tmp_path / "project")
    assert again.returncode == 1
    assert "was answered OK before it was durable" in again.stdout


@pytest.mark.slow
def test_a_mark_on_a_module_applies_only_to_tests_with_a_simulation(tests_of: Callable[..., Done]) -> None:
    done = tests_of(f"{SOUND}\npytestmark = pytest.mark.tornlog(seeds=4)\ndef test_plain(): ...\n")

    assert done.returncode == 0, done.stdout
    assert "1 test, 4 seeds" in done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.slow
def test_a_users_own_fixture_named_simulation_replaces_the_plugins(tests_of: Callable[..., Done]) -> None:
    fixture = "@pytest.fixture\ndef simulation():\n    return 'mine'\n"
    text = f"{HEAD}{fixture}def test_it(simulation):\n    assert simulation == 'mine'\n"

    done = tests_of(text)

    assert done.returncode == 0, done.stdout
    assert "tornlog" not in done.stdout


UNTOUCHED = """
import sys
def test_nothing_of_tornlog_is_there():
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "tornlog")
    # One test, not two: the imports of the second half would be visible to the first in the other order.
    plugins = ["tornlog.reports.timeline.pytest_hook", "tornlog.scenarios.testing.plugin"]
    assert ours == sorted({name.rsplit(".", n)[0] for name in plugins for n in range(4)})
    assert "greenlet" not in sys.modules
    assert "hypothesis.strategies" not in sys.modules
    import tornlog.sim.choices  # the asserts of tornlog are left as they are
    assert type(tornlog.sim.choices.__loader__).__name__ == "SourceFileLoader"
"""


def test_a_pytest_session_without_marks_does_not_import_the_engine(tests_of: Callable[..., Done]) -> None:
    done = tests_of(UNTOUCHED, "-p no:hypothesispytest")

    assert done.returncode == 0, done.stdout


def test_pytest_lists_the_tornlog_mark(shell: Callable[..., Done], tmp_path: Path) -> None:
    done = shell("pytest --markers", tmp_path)

    assert "@pytest.mark.tornlog(seeds=100, *, shrink=True" in done.stdout


SHORT_RECORDS = f"""{HEAD}
from zlib import crc32

@pytest.mark.parametrize("checksum", [False, True])
def test_log(simulation, checksum):
    head = (lambda body: (crc32(body) if checksum else len(body)).to_bytes(4, "big"))
    bodies, acknowledged = [], []

    def use(world):
        log = world.files.open("/log")
        world.files.sync_directory("/")
        for number, _ in simulation.steps("appends", 20):
            bodies.append(b"%035d " % number)
            log.write(40 * len(acknowledged), head(bodies[-1]) + bodies[-1])
            log.sync()
            acknowledged.append(number)

    def judge(world):
        log, found = world.files.open("/log"), []
        while len(record := log.read(40 * len(found), 40)) == 40 and record[:4] == head(record[4:]):
            found.append(record[4:])
        assert found == bodies[:len(found)]
        assert len(found) >= len(acknowledged)

    simulation.live("one", use, crash_within=50)
    simulation.live("two", judge)

def test_writes_once(simulation):
    simulation.live("one", lambda world: world.files.write("/a", b"x"), crash_within=9, profiles=("xfs",))

def test_without_a_simulation():
    pass
"""


@pytest.mark.slow
def test_short_records_are_torn_within_the_default_seeds_and_missing_faults_are_named(
    tests_of: Callable[..., Done],
) -> None:
    done = tests_of(SHORT_RECORDS)

    assert "1 failed, 3 passed" in done.stdout
    assert "test_log[False]" in done.stdout
    assert "crashes   one: torn-sectors" in done.stdout
    assert "never happened in any test: " not in done.stdout.partition("test_writes_once")[0]
    alone = tests_of(SHORT_RECORDS, "-k writes_once")
    assert re.search("^never happened in any test: .*torn page", alone.stdout, re.MULTILINE)


@pytest.mark.slow
def test_a_failure_is_replayed_for_its_own_test_and_other_tests_are_skipped(tests_of: Callable[..., Done]) -> None:
    tests_of(SHORT_RECORDS, "--tornlog-out out")

    done = tests_of(SHORT_RECORDS, "-rs --tornlog-replay out/failures/*.json")
    assert "1 failed, 1 passed, 2 skipped" in done.stdout
    assert "is a failure of test_it.py::test_log[False]" in done.stdout
    other = tests_of(SHORT_RECORDS, "-k 'log and True' --tornlog-replay out/failures/*.json")
    assert other.returncode == 5
    assert "its test was not among the tests that were run" in other.stdout
