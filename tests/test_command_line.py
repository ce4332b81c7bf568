"""Command line: its commands, their start-up costs, and completion of names."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.command_line import COMMANDS, Entry, load
from tornlog.faults.simulation.explore import LIMIT
from tornlog.reports.cli.options import unknown_name_error
from tornlog.scenarios.campaigns.explore import WHOLE_LIMIT
from tornlog.scenarios.campaigns.failures.shrink import TRIES_MAX
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.fuzz.mutants import FUZZED
from tornlog.scenarios.fuzz.targets import TARGETS

STARTS_MAX = 10
"""Limit in starts of a bare interpreter: 0.3 s if one takes 30 ms. A slow machine slows both."""
ENTRIES = {
    " ".join((name, *inner)): entry
    for name, value in COMMANDS.items()
    for inner, entry in ([((), value)] if isinstance(value, Entry) else [((sub,), one) for sub, one in value.items()])
}


def completions(words: str, *, count: int | None = None) -> list[str]:
    """Return the shell's completions for the last of some words."""
    environment = {
        **os.environ,
        "_TORNLOG_COMPLETE": "complete_bash",
        "COMP_WORDS": f"tornlog {words}",
        "COMP_CWORD": str(len(f"tornlog {words}".split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from tornlog.__main__ import main; sys.argv[0] = 'tornlog'; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["run", "--help"]], ids=" ".join)
def test_version_and_help_start_fast(words: list[str]) -> None:
    def cpu_seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # On a busy machine caches are cold and the same work takes 50 % longer, so one good pair of ten is enough.
    pairs = ((cpu_seconds("-m", "tornlog", *words), cpu_seconds("-c", "")) for _ in range(10))
    assert any(asked < STARTS_MAX * bare for asked, bare in pairs)


def test_a_closed_output_pipe_does_not_count_as_a_broken_promise() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


CLOSED = """
import os, sys
read, write = os.pipe()
os.dup2(write, 1)
os.close(read)
os.close(write)
sys.argv = ["tornlog", "list"]
from tornlog.__main__ import main
main()
"""
SIMULATOR = ("tornlog.sim", "tornlog.faults", "tornlog.store", "tornlog.scenarios")
QUICK = ("run", "list", "replay", "shrink", "explore", "mutants", "fuzz", "sweep", "analyze")
"""Commands whose options are known without the modules that run them."""
HEAVY = ("numpy", "matplotlib", "pyspark", "pyarrow", "jinja2", "asyncio", "hypothesis", "pytest")
"""Libraries for a few options. A command imports them only for these."""


def imported_by(program: str, *names: str, status: int = 0) -> list[str]:
    """Return the imported modules of some packages at the end of a Python program with the given exit status."""
    at_exit = "lambda: sys.stderr.write('\\n'.join(['imported:', *sys.modules]))"
    text = f"import atexit, sys; atexit.register({at_exit}); {program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    modules = done.stderr.rpartition("imported:\n")[2].split("\n")
    assert "tornlog" in modules
    return [module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in names)]


def program_of(words: list[str]) -> str:
    return f"import runpy; sys.argv[1:] = {words!r}; runpy.run_module('tornlog', run_name='__main__', alter_sys=True)"


@pytest.mark.parametrize("words", [["--version"], ["--help"], *([name, "--help"] for name in QUICK)], ids=" ".join)
def test_version_and_help_import_no_simulator(words: list[str]) -> None:
    light = {"tornlog.store", "tornlog.store.errors"}
    if words == ["--version"]:  # the version includes whether the C core exists
        light |= {"tornlog.store.real", *(f"tornlog.store.{name}" for name in ("formats", "real.native"))}
        light |= {"tornlog.store.formats.native", "tornlog.store.formats.native._records"}
    assert set(imported_by(program_of(words), *SIMULATOR, "rich")) <= light


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_help_imports_no_library_that_only_a_few_options_need(name: str) -> None:
    assert imported_by(program_of([*name.split(), "--help"]), *HEAVY) == []


@pytest.mark.parametrize("name", ["probe", "audit", "inspect", "verify", "dump", "rebuild", "config", "serve"])
def test_the_help_of_a_command_without_scenarios_imports_no_scenarios(name: str) -> None:
    assert imported_by(program_of([name, "--help"]), "tornlog.scenarios", "tornlog.faults.simulation") == []


@pytest.mark.parametrize("name", ["inspect", "verify", "dump", "rebuild", "config", "serve"])
def test_a_command_for_a_store_directory_imports_no_simulation(name: str) -> None:
    assert imported_by(program_of([name, "--help"]), "tornlog.sim", "tornlog.faults") == []


def test_a_run_without_a_mutant_collects_no_mutants() -> None:
    bugs = "tornlog.scenarios.mutants.bugs"
    assert imported_by(program_of(["run", "process-kill", "--seed", "1", "--no-corpus"]), bugs) == [bugs]


def test_the_probe_command_module_imports_no_console_scenarios_or_store() -> None:
    unwanted = ("rich", "tornlog.scenarios", "tornlog.store", "tornlog.faults.simulation", *HEAVY)
    assert imported_by("import tornlog.reports.cli.probe.command", *unwanted) == []


@pytest.mark.parametrize("breaks", [False, True], ids=["every promise held", "broken"])
def test_running_a_probe_imports_no_scenarios_or_store(tmp_path: Path, *, breaks: bool) -> None:
    check = tmp_path / "check.py"
    check.write_text(f"def check(directory, acknowledged):\n    assert {breaks} <= (directory / 'value').exists()\n")
    script = tmp_path / "save.py"
    script.write_text("open('value', 'w').write('one')")
    words = ["probe", "--check", str(check), "--jobs", "0", "--json", str(tmp_path / "found.json"), "--", str(script)]
    unwanted = ("tornlog.scenarios", "tornlog.store", *HEAVY)
    assert imported_by(program_of(words), *unwanted, status=int(breaks)) == []


@pytest.mark.parametrize("name", ENTRIES)
def test_the_summary_of_a_command_is_the_first_line_of_its_docstring(name: str) -> None:
    command = load(name.rpartition(" ")[2], ENTRIES[name])
    assert " ".join((command.help or "").split()).startswith(ENTRIES[name].summary)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("explore", f"Default: {LIMIT}, or {WHOLE_LIMIT} with several machines"),
        ("shrink", f"Default: {TRIES_MAX}."),
        ("fuzz", f"One or more of {', '.join(TARGETS)}. Default: all"),
        ("fuzz", f"Put a bug into the code: {', '.join(FUZZED)}, or"),
    ],
)
def test_help_shows_the_values_of_modules_that_it_does_not_import(name: str, said: str) -> None:
    text = tornlog(name, "--help").stdout
    assert "".join(said.split()) in "".join(text.split())


@pytest.mark.parametrize("name", ENTRIES)
def test_no_option_is_truncated_in_80_columns(name: str) -> None:
    text = tornlog(*name.split(), "--help", columns=80).stdout
    shown = set(re.findall(r"--[a-z][a-z-]*", text))
    for parameter in load(name.rpartition(" ")[2], ENTRIES[name]).params:
        if parameter.param_type_name == "option":
            assert set(parameter.opts) <= shown | {"-o"}, parameter.opts
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_shell_completion_offers_commands_options_and_names() -> None:
    assert "run" in completions("r")
    assert "--check-determinism" in completions("run --ch")
    assert completions("run second-") == ["second-start-refused"]
    assert completions("run --disk ext4-") == [name for name in DISK_MODELS if name.startswith("ext4-")]
    assert completions("plot la") == ["latency"]


def test_shell_completion_can_be_shown_and_installed() -> None:
    text = tornlog("--help").stdout
    assert "--show-completion" in text
    assert "--install-completion" in text


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "sync-flush-survives-powerloss"], "did you mean sync-flush-power-cut"),
        (["run", "dying-disk"], "did you mean swarm-dying-disk or swarm-lying-disk or recovery-on-dying-disk"),
        (["run", "--disk", "ext4-orderd"], "did you mean ext4-ordered"),
        (["run", "--policy", "random-wlak"], "did you mean random-walk"),
        (["run", "--mutant", "ack-before-flsh"], "did you mean ack-before-flush"),
        (["run", "--as", "rocketmq-4.9.7"], "did you mean rocketmq-4.9.8"),
        (["mutants", "ack-befor-flush"], "did you mean ack-before-flush"),
        (["explore", "crash-in-recover"], "did you mean crash-in-recovery"),
        (["mutnats"], "Did you mean 'mutants'"),
    ],
)
def test_a_similar_name_is_suggested_for_an_unknown_name(words: list[str], meant: str) -> None:
    assert meant in usage_error(*words)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--narrowed"], "not allowed with --narrowed"),
        (["--seeds", "5"], "not allowed with --seeds"),
        ([], "expected a file of `make conditions`"),
    ],
)
def test_measured_runs_require_a_file_of_runs_and_a_free_choice_of_seeds(
    tmp_path: Path, words: list[str], error: str
) -> None:
    path = tmp_path / "runs"
    path.write_text("no runs")
    assert error in usage_error("mutants", "ack-before-flush", "--measured", str(path), *words)


def test_the_error_for_an_unknown_name_without_a_similar_one_refers_to_the_list() -> None:
    assert "`tornlog list` names them" in str(unknown_name_error("scenario", "zzz", SCENARIOS))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--out", "{}/file/out"],
        ["run", "--json", "{}/file/run.json"],
        ["run", "--junit", "{}/file/junit.xml"],
        ["run", "--summary", "{}/file/summary.md"],
        ["run", "--json", "{}"],
        ["mutants", "--out", "{}/file"],
        ["fuzz", "--out", "{}/file/out"],
        ["explore", "crash-in-recovery", "--out", "{}/file/out"],
        ["explore", "crash-in-recovery", "--schedules", "--out", "{}/file/out"],
        ["sweep", "--seeds", "1", "--out", "{}/file/out"],
        ["plot", "latency", "--out", "{}/file/out"],
        ["verify", "{}", "--json", "{}/file/found.json"],
        ["list", "--json", "{}/file/list.json"],
    ],
)
def test_an_unwritable_output_directory_is_reported_before_any_work(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    result = tornlog(*[word.format(tmp_path) for word in words])
    assert result.exit_code == 2
    assert str(tmp_path) in "".join(result.stderr.split())
    assert result.stdout == ""


def test_the_json_option_works_without_a_file_and_leaves_arguments_after_two_dashes_unchanged(tmp_path: Path) -> None:
    assert tornlog("list", "--json").stdout.startswith("{")
