"""The GitHub action and docs/ci.md: each shell block runs with the variables of its service."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tornlog.reports.cli.options import CORPUS

Done = subprocess.CompletedProcess[str]
_BLOCK = re.compile(r"^```yaml\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_GROOVY = re.compile(
    r"^```groovy\n.*sh '''\n(?P<script>.*)'''\n.*junit '(?P<junit>.*?)'.*artifacts: '(?P<kept>\w+)/\*\*'.*^```$",
    re.MULTILINE | re.DOTALL,
)
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
_FAST = {"scenarios": "segment-rollover-crash\n  clean-shutdown", "seeds": "3", "jobs": "1"}


@pytest.fixture(scope="module")
def action(source: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((source / "action.yml").read_text())
    return found


@pytest.fixture(scope="module")
def snippets(source: Path) -> list[dict[str, Any]]:
    """The YAML documents of the page."""
    return [yaml.safe_load(block["text"]) for block in _BLOCK.finditer((source / "docs" / "ci.md").read_text())]


@pytest.fixture(scope="module")
def offline_python(bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a `python` that makes environments with all dependencies installed."""
    place = tmp_path_factory.mktemp("offline")
    script = place / "python"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$1 $2" = "-m venv" ]; then exec cp -a {bare_python.parents[1]} "$3"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return place


OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
"""pip builds with the installed packages. Its switch is inverted: 0 disables isolation."""


class Runner:
    """A GitHub runner, as a composite action sees it. `did`: the steps of the last run, by name."""

    def __init__(self, action: dict[str, Any], source: Path, offline_python: Path, place: Path) -> None:
        self.workspace, self.temp = place / "work", place / "temp"
        self.workspace.mkdir(parents=True)
        self.temp.mkdir()
        self.summary, self.output = place / "summary.md", place / "output"
        self._steps = action["runs"]["steps"]
        self._defaults = {name: one["default"] for name, one in action["inputs"].items()}
        self._environment = {
            **OFFLINE,
            "PATH": f"{offline_python}:/usr/bin:/bin",
            "HOME": str(place),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(source),
            "GITHUB_WORKSPACE": str(source),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.temp),
            "RUNNER_OS": "Linux",
        }
        self.did: dict[str, Done] = {}

    def run(self, **inputs: str) -> Done:
        """Run all shell blocks as GitHub does: with -e and pipefail, and after a failure those for failures."""
        given, self.did = self._defaults | inputs, {}
        done: Done | None = None
        failed: Done | None = None
        for step in self._steps:
            if "run" not in step or (failed is not None) != ("failure()" in step.get("if", "")):
                continue
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "inputs reach a script as variables only"
            named = {
                name: _INPUT.sub(lambda found: given[found[1]], value) for name, value in step.get("env", {}).items()
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.workspace,
                env=self._environment | named,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            self.did[step["name"]] = done
            if done.returncode:
                failed = failed or done
        assert done is not None
        return failed or done

    def only(self, *step_ids: str) -> "Runner":
        """Keep only these steps."""
        self._steps = [step for step in self._steps if step.get("id") in step_ids]
        return self

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture(scope="module")
def checkout(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the action's repository."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "tests")
    return Path(shutil.copytree(source, tmp_path_factory.mktemp("action") / "tornlog", ignore=left_out))


@pytest.fixture
def runner(action: dict[str, Any], checkout: Path, offline_python: Path, tmp_path: Path) -> Runner:
    return Runner(action, checkout, offline_python, tmp_path / "runner")


@pytest.mark.slow
def test_the_ci_action_writes_its_files_and_fails_with_the_command(runner: Runner) -> None:
    done = runner.run(**_FAST)

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(runner.did) == ["Name the cache", "Install tornlog", "Run scenarios"]
    outputs = runner.outputs()
    assert outputs["status"] == "0"
    assert outputs["directory"].endswith("pip")
    assert re.fullmatch(r"tornlog-pip-Linux-3\.\d+\.\d+-[0-9a-f]{16}", outputs["key"])
    assert "| segment-rollover-crash | 3 |" in runner.summary.read_text()
    out = runner.workspace / "tornlog-out"
    report = json.loads((out / "report.json").read_text())
    assert [one["name"] for one in report["scenarios"]] == _FAST["scenarios"].split()
    assert len(list(ElementTree.parse(out / "junit.xml").iter("testcase"))) == 2

    failing = runner.only("run").run(scenarios="no-such", disk="xfs", out="a place")
    assert failing.returncode == 2
    assert runner.outputs()["status"] == "2"
    assert "no scenario no-such" in failing.stderr


@pytest.mark.slow
def test_the_ci_action_annotates_the_pull_request_and_shrinks_failures_before_it_uploads_them(
    runner: Runner, action: dict[str, Any]
) -> None:
    failing = runner.run(scenarios="sync-flush-power-cut --mutant ack-before-flush", seeds="4", shrink="2s")

    assert failing.returncode == 1, failing.stdout + failing.stderr
    assert list(runner.did)[-2:] == ["Run scenarios", "Shrink failures"]
    assert "::error file=store/" in failing.stderr
    failures = [json.loads(path.read_text()) for path in runner.workspace.glob("tornlog-out/failures/*.json")]
    assert failures
    assert all(document["failure"]["shrunk"] for document in failures)
    ids = [step.get("id", step.get("uses", "")) for step in action["runs"]["steps"]]
    assert ids.index("run") < ids.index("shrink") < len(ids) - 1
    assert ids[-1].startswith("actions/upload-artifact@")


def fake_tornlog(runner: Runner, script: str) -> None:
    install = runner.temp / "tornlog" / "bin"
    install.mkdir(parents=True)
    (install / "tornlog").write_text(f"#!/bin/sh\n{script}\n")
    (install / "tornlog").chmod(0o755)


def test_the_ci_action_shrinks_eight_failures_and_names_those_that_could_not_be_shrunk(runner: Runner) -> None:
    fake_tornlog(runner, 'case "$*" in *bad*) exit 3 ;; run*) exit 1 ;; *) echo "$*"; exit 1 ;; esac')
    failures = runner.workspace / "out" / "failures"
    failures.mkdir(parents=True)
    for name in ("0-bad", *"123456789"):
        (failures / f"{name}.json").touch()

    runner.only("run", "shrink").run(out="out", shrink="2s")

    shrunk = [f"shrink out/failures/{number}.json --time 2s" for number in range(1, 8)]
    printed = runner.did["Shrink failures"].stdout.splitlines()
    assert printed == ["not shrunk: out/failures/0-bad.json", *shrunk]


def test_without_seeds_or_time_the_ci_action_runs_for_a_minute(runner: Runner) -> None:
    fake_tornlog(runner, 'printf "%s\\n" "$@"\nexit 1')

    told = runner.only("run").run(jobs="7", disk="xfs")
    timed = runner.run(time="5m", seeds="9")

    options = ["--jobs", "7", "--out", "tornlog-out", "--json", "tornlog-out/report.json"]
    options += ["--junit", "tornlog-out/junit.xml", "--summary", str(runner.summary)]
    assert told.stdout.splitlines() == ["run", *options, "--time", "60s", "--disk", "xfs"]
    assert (told.returncode, runner.outputs()["status"]) == (1, "1")
    assert timed.stdout.splitlines()[-4:] == ["--seeds", "9", "--time", "5m"]


def test_the_ci_action_uses_all_inputs_and_always_uploads_results(action: dict[str, Any]) -> None:
    text = json.dumps(action["runs"])
    steps = action["runs"]["steps"]

    assert set(_INPUT.findall(text)) == set(action["inputs"])
    assert all(one["description"] for one in action["inputs"].values())
    upload = next(step for step in steps if str(step.get("uses")).startswith("actions/upload-artifact@"))
    assert upload is steps[-1]
    assert upload["if"] == "always()"
    assert all(re.fullmatch(r"actions/[\w-]+(/\w+)?@v\d+", step["uses"]) for step in steps if "uses" in step)


def test_the_ci_action_restores_the_corpus_and_saves_it_after_a_failure(action: dict[str, Any]) -> None:
    steps = action["runs"]["steps"]
    restore, save = (
        next(step for step in steps if step.get("uses") == f"actions/cache/{what}@v4") for what in ("restore", "save")
    )
    (run,) = (step for step in steps if step.get("id") == "run")

    assert steps.index(restore) < steps.index(run) < steps.index(save)
    assert save["if"].startswith("always()")
    assert restore["with"]["path"] == save["with"]["path"] == CORPUS
    assert restore["with"]["key"] == save["with"]["key"]
    assert "run_id" in save["with"]["key"], "a key is saved only once"
    assert restore["with"]["key"].startswith(restore["with"]["restore-keys"])


def test_the_ci_page_lists_exactly_the_inputs_of_the_action(
    action: dict[str, Any], snippets: list[dict[str, Any]], source: Path
) -> None:
    steps = [step for snippet in snippets for job in snippet.get("jobs", {}).values() for step in job["steps"]]
    (ours,) = (step for step in steps if "tornlog@" in str(step.get("uses")))
    page = (source / "docs" / "ci.md").read_text()

    assert set(ours["with"]) <= set(action["inputs"])
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(action["inputs"])


@pytest.mark.slow
@pytest.mark.parametrize("service", ["gitlab", "jenkins"])
def test_the_job_of_another_service_on_the_ci_page_runs(
    service: str, snippets: list[dict[str, Any]], source: Path, wheel: Path, offline_python: Path, tmp_path: Path
) -> None:
    (gitlab,) = (snippet["crashes"] for snippet in snippets if "crashes" in snippet)
    jenkins = _GROOVY.search((source / "docs" / "ci.md").read_text())
    assert jenkins is not None
    scripts = {
        "gitlab": (["bash", "-eo", "pipefail", "-c"], "\n".join(gitlab["script"])),
        "jenkins": (["sh", "-xe", "-c"], jenkins["script"]),
    }
    shell, script = scripts[service]
    environment = {**OFFLINE, "PATH": f"{offline_python}:/usr/bin:/bin", "HOME": str(tmp_path), "TORNLOG": str(wheel)}

    done = subprocess.run(
        [*shell, script.replace("--seeds 100", "--seeds 1")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert gitlab["artifacts"]["when"] == "always"
    results = {"gitlab": gitlab["artifacts"]["reports"]["junit"], "jenkins": jenkins["junit"]}
    kept = {"gitlab": gitlab["artifacts"]["paths"][0], "jenkins": jenkins["kept"]}
    junit = tmp_path / results[service]
    assert len(list(ElementTree.parse(junit).iter("testcase"))) > 30
    assert junit.parent.name == kept[service]
