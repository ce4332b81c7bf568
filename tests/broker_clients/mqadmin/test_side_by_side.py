"""Output of mqadmin 4.9.8 with tornlog and with RocketMQ's broker 4.9.7."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker_clients.mqadmin.command_lines import ACCESS_LINES, ENDLESS, LINES, Agreement, Line, names_of, words_of
from tests.broker_clients.side_by_side import OF_A_NETWORK, REAL
from tests.conformance.maven import JavaProgram, fetched_jars, java_program

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("driver")
TOOLS = ["org.apache.rocketmq:rocketmq-tools:4.9.8"]
NOT_HERE = {"mapedFileSizeCommitLog"}
"""Keys that RocketMQ prints only if its broker.conf has the same spelling."""


@pytest.fixture(scope="module")
def answers(
    fetched: Callable[[Callable[[], JavaProgram]], JavaProgram], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The outputs of both brokers."""
    sources = {path.name: path.read_text() for path in DRIVER.glob("*.java")}
    program = fetched(lambda: java_program("mqadmin", TOOLS, sources))
    jars = fetched_jars("real-broker-4.9.7", REAL)
    if shutil.which("unshare") is None or subprocess.run([*OF_A_NETWORK, "true"], check=False).returncode:
        pytest.skip("no network of its own can be made here, and the real broker listens on every interface")
    place = tmp_path_factory.mktemp("side-by-side")
    command = [sys.executable, "-m", "tests.broker_clients.mqadmin", str(jars), program.class_path, str(place)]
    done = subprocess.run([*OF_A_NETWORK, *command], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((place / "answers.json").read_text())
    return found


def _check_agreement(line: Line, real: list[str], ours: list[str]) -> None:
    assert (real[0], ours[0]) == (line.text, line.text)
    assert ours[1] == real[1], "how it ended"
    if line.agreement is Agreement.ALIKE:
        assert words_of(ours[2], line.passed_over) == words_of(real[2], line.passed_over), ours[2]
    elif line.agreement is Agreement.NAMES:
        assert names_of(real[2]) - NOT_HERE <= names_of(ours[2])
        assert len(names_of(real[2])) > 15
    else:
        assert re.search(line.ours, ours[2]), ours[2]
        assert words_of(ours[2]) != words_of(real[2]), "agreed after all: the table is wrong"


@pytest.mark.parametrize("number", range(len(LINES)), ids=[line.text[:80] for line in LINES])
def test_both_brokers_answer_a_command_line_the_same_way(answers: dict[str, Any], number: int) -> None:
    _check_agreement(LINES[number], answers["real"][number], answers["ours"][number])


@pytest.mark.parametrize("number", range(len(ACCESS_LINES)), ids=[line.text[:80] for line in ACCESS_LINES])
def test_both_brokers_answer_account_commands_the_same_way(answers: dict[str, Any], number: int) -> None:
    _check_agreement(ACCESS_LINES[number], answers["real with access"][number], answers["ours with access"][number])


def test_the_command_table_has_every_mqadmin_command_that_ends_by_itself(answers: dict[str, Any]) -> None:
    (helped,) = (printed for text, _, printed in answers["real"] if not text)
    known = set(re.findall(r"(?m)^   (\w+) ", helped))
    tried = {line.text.split()[0] for line in [*LINES, *ACCESS_LINES] if line.text}
    assert len(known) > 50
    assert known - tried == ENDLESS


def test_both_brokers_write_a_changed_setting_to_their_file(answers: dict[str, Any]) -> None:
    for kind in ("real", "ours"):
        lines = answers[f"{kind}: broker.conf"].splitlines()
        assert {"transactionCheckMax=2", "fileReservedTime=48"} <= set(lines)


def test_exported_files_have_the_same_form_settings_and_topics(answers: dict[str, Any]) -> None:
    real, ours = answers["real: exports"], answers["ours: exports"]
    assert ours.keys() == real.keys() == {"configs.json", "metadata.json", "metrics.json", "topic.json"}
    assert ours["configs.json"] == real["configs.json"]
    assert _form_of(ours["metrics.json"]) == _form_of(real["metrics.json"])
    for name in ("metadata.json", "topic.json"):
        assert ours[name]["topicConfigTable"] == real[name]["topicConfigTable"]


def _form_of(value: Any) -> Any:
    return {name: _form_of(member) for name, member in value.items()} if isinstance(value, dict) else type(value)
