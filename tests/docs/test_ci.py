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
    """A GitHub runner, as a composite action sees it. `did`: the names of its steps so far."""

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
            "GITHUB_ACTION_PATH": str(source),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.temp),
            "RUNNER_OS": "Linux",
        }
        self.did: list[str] = []

    def run(self, **inputs: str) -> Done:
        """Run all shell blocks as GitHub does: with -e and pipefail, up to the first failure."""
        given = self._defaults | inputs
        done: Done | None = None
        for step in self._steps:
            if "run" not in step:
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
            self.did.append(step["name"])
            if done.returncode:
                break
        assert done is not None
        return done

    def only(self, step_id: str) -> "Runner":
        """Keep only one step."""
        self._steps = [step for step in self._steps if step.get("id") == step_id]
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
def test_the_ci_action_writes_its_files_and_fails_with_the_command(
    runner: Runner,
) -> None:
    done = runner.run(**_FAST)

    assert done.returncode == 0, done.stdout + done.stderr
    assert runner.did == ["Name the cache", "Install tornlog", "Run scenarios"]
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


def test_without_seeds_or_time_the_ci_action_runs_for_a_minute(runner: Runner) -> None:
    install = runner.temp / "tornlog" / "bin"
    install.mkdir(parents=True)
    (install / "tornlog").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 1\n')
    (install / "tornlog").chmod(0o755)

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
def test_the_gitlab_job_on_the_ci_page_runs(
    snippets: list[dict[str, Any]], wheel: Path, offline_python: Path, tmp_path: Path
) -> None:
    (job,) = (snippet["crashes"] for snippet in snippets if "crashes" in snippet)
    script = "\n".join(job["script"]).replace("--seeds 100", "--seeds 1")
    environment = {
        **OFFLINE,
        "PATH": f"{offline_python}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TORNLOG": str(wheel),
    }

    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert job["artifacts"]["when"] == "always"
    junit = tmp_path / job["artifacts"]["reports"]["junit"]
    assert len(list(ElementTree.parse(junit).iter("testcase"))) > 30
    assert junit.parent.name in job["artifacts"]["paths"]
