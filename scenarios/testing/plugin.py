"""The pytest plugin: options, two marks, three fixtures, and a summary line.

    def test_saved_data_is_there(simulation): ...                      run for every seed, each in a world of its own

    @pytest.mark.tornlog(scenario="segment-rollover-crash", seeds=50)
    def test_our_segments(tornlog_tally): ...                          run once, after 50 seeds of a scenario

    def test_survives(probe): probe(["./writer"], check=check)         run once; the program crashes at each operation

pytest loads this module in every session of an environment with tornlog, so it imports other tornlog modules only when
a test needs them. A test's facts are part of pytest's report, so pytest-xdist sends them from its workers.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from ...faults.simulation.finding import Finding
    from ...faults.simulation.simulation import Scenario
    from .probed import NamedCheck, ProbeAnswer

MARK = "tornlog"
_OPTIONS = (
    ("--tornlog-seeds", "N", "Run seeds 0 to N - 1, or A:B for A to B - 1, in place of those of the marks."),
    ("--tornlog-seed", "S", "Run one seed only."),
    ("--tornlog-time", "TIME", "Start no further seed of a test after this time, such as 60s or 5m."),
    ("--tornlog-out", "DIR", "Write failures and timelines to folders of DIR, and a report to DIR/report.json."),
    ("--tornlog-replay", "FILE", "Replay the failure in FILE, written by --tornlog-out, and skip other tests."),
)  # fmt: skip
_MARK_LINE = (
    f"{MARK}(seeds=100, *, shrink=True, must_inject=(), never_injected='warn', scenario=None, disk=None, policy=None, "
    "ranges=None, mutant=None): run a test for seeds of a simulation, or after seeds of a scenario (docs/pytest.md)"
)
_PROBE_MARK_LINE = (
    "tornlog_probe(**options): options of the fixture `probe`, such as disk='ext4-ordered' or limit=64 (docs/pytest.md)"
)


class UnusableSimulation:
    """A placeholder for the simulation, because pytest sets up fixtures once, before any seed runs."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"simulation.{name}: each seed has its own simulation, which only the test function receives"
        )


@pytest.fixture
def simulation() -> Any:
    """A `tornlog.faults.simulation.simulation.Simulation`. The test runs for every seed."""
    return UnusableSimulation()


@pytest.fixture
def tornlog_tally() -> Any:
    """The `tornlog.scenarios.campaigns.runner.Tally` of the mark's scenario after all its seeds."""
    return None


@pytest.fixture
def probe(request: pytest.FixtureRequest) -> Any:
    """A function that crashes a program at each of its file operations: probe(program, check=..., **options)."""
    from .probed import ProgramProbe

    found = ProgramProbe(request.node)
    request.node.tornlog_probes = found.facts
    return found


class HookSpecifications:
    """The hooks that `tornlog.reports` implements."""

    @pytest.hookspec(firstresult=True)
    def pytest_tornlog_failure(self, scenario: "Scenario", finding: "Finding", out: Path, name: str) -> Path | None:
        """Draw a timeline of a failure of a user's own code in a file below `out`, and return the file's path."""

    @pytest.hookspec(firstresult=True)
    def pytest_tornlog_probe(
        self, program: list[str], check: "NamedCheck | Path | None", options: dict[str, Any], out: Path | None
    ) -> "ProbeAnswer | None":
        """Probe a program with the options of `tornlog probe`, and write failures below `out`."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(HookSpecifications)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    group = parser.getgroup("tornlog", "crash tests")
    for name, metavar, text in _OPTIONS:
        group.addoption(name, metavar=metavar, default=None, help=text)
    # pytest rewrites the asserts of all modules that come with a plugin, which could change a run's digest.
    getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", set()).discard("tornlog")


def pytest_configure(config: pytest.Config) -> None:
    for line in (_MARK_LINE, _PROBE_MARK_LINE):
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(SessionResults(config), "tornlog-gathered")
    if any(config.getoption(name) is not None for name, _, _ in _OPTIONS):
        from .mark_arguments import check_options

        check_options(config)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run the seeds of a marked test. Other tests run unchanged."""
    is_simulated = isinstance(pyfuncitem.funcargs.get("simulation"), UnusableSimulation)
    mark = pyfuncitem.get_closest_marker(MARK)
    if mark is None and not is_simulated:
        return (yield)
    from .marked import for_each_seed

    function = pyfuncitem.obj
    pyfuncitem.obj = for_each_seed(pyfuncitem, mark, function, is_simulated=is_simulated)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = function


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report: Any = yield
    if report.when == "call":
        for name, attribute in (("tornlog", "tornlog_facts"), ("tornlog_probes", "tornlog_probes")):
            facts = getattr(item, attribute, None)
            if facts is not None:
                setattr(report, name, facts)
    return report


class SessionResults:
    """Collects the facts of all tests in the process that reports the session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._facts: list[dict[str, Any]] = []
        self._probes: list[dict[str, Any]] = []

    @property
    def _is_unmet_replay(self) -> bool:
        is_worker = hasattr(self._config, "workerinput")
        return self._config.getoption("--tornlog-replay") is not None and not self._facts and not is_worker

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = getattr(report, "tornlog", None)
        if facts is not None:
            self._facts.append(facts)
        self._probes += getattr(report, "tornlog_probes", ())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._is_unmet_replay:
            file = self._config.getoption("--tornlog-replay")
            terminalreporter.write_line(f"{file}: its test was not among the tests that were run")
        if self._facts or self._probes:
            from .facts import summary_of
            from .probed import summary_of_probes

            terminalreporter.section("tornlog", sep="-")
            lines = summary_of(self._facts) if self._facts else []
            for line in [*lines, *([summary_of_probes(self._probes)] if self._probes else [])]:
                terminalreporter.write_line(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, except in a worker process. Fail a replay in which the replayed test was not run."""
        if self._is_unmet_replay and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        out = self._config.getoption("--tornlog-out")
        if out is not None and not hasattr(self._config, "workerinput"):
            from .facts import write_report

            write_report(self._facts, self._probes, self._config.invocation_params.dir / Path(out))
