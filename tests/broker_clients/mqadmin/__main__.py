"""`python -m tests.broker_clients.mqadmin BROKER_JARS CLASS_PATH PLACE`: mqadmin with two brokers.

The same command lines run with RocketMQ's broker ("real") and with tornlog ("ours"). RocketMQ's broker listens on every
interface, so run this command in a separate network namespace. The outputs are written to PLACE/answers.json: {"real":
[[line, how it ended, output], ...], "ours": [...], and both again with access lists}.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.broker_clients.mqadmin.command_lines import ACCESS_LINES, LINES, Line

_ANSWER_S = 90
_ACL = """globalWhiteRemoteAddresses:
- 127.0.0.1
accounts:
- accessKey: administrator
  secretKey: 12345678
  admin: true
"""


class MqAdmin:
    """A JVM that runs mqadmin command lines. If a command ends the JVM, it is started again."""

    def __init__(self, class_path: str, home: Path) -> None:
        conf = home / "conf"
        conf.mkdir(parents=True)
        (conf / "logback_tools.xml").write_text("<configuration><root level='OFF'/></configuration>")
        self._command = [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m", f"-Duser.home={home}"),
            *(f"-Drocketmq.client.logRoot={home}", "-cp", class_path, "MqAdmin"),
        ]
        self._home = home
        self._env = {**os.environ, "ROCKETMQ_HOME": str(home)}
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(self._command, text=True, env=self._env, cwd=self._home, **pipes)

    def run(self, arguments: Sequence[str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(arguments)) + "\n")
        self._process.stdin.flush()
        limit = threading.Timer(_ANSWER_S, self._process.kill)
        limit.start()
        answer = self._process.stdout.readline()
        limit.cancel()
        if not answer:
            self._process.wait()
            self._process = self._start()
            return {"ended": f"no answer within {_ANSWER_S} s", "printed": ""}
        said: dict[str, Any] = json.loads(answer)
        if said["ended"] == "exit":
            said["ended"] = f"exit {self._process.wait()}"
            self._process = self._start()
        return said

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _answers(lines: Sequence[Line], broker: Any, admin: MqAdmin, place: Path) -> list[list[str]]:
    values = {"n": broker.namesrv, "b": broker.address, "dir": str(place / "export")}
    answers = []
    for line in lines:
        said = admin.run([word.format(**values) for word in line.text.split()])
        found = said.get("found")
        values |= found if isinstance(found, dict) else {"client": found} if found else {}
        answers.append([line.text, said["ended"], said["printed"].replace(str(place), "PLACE")])
    return answers


def main(broker_jars: str, class_path: str, place: Path) -> None:
    """Run all command lines with both brokers."""
    os.environ["ROCKETMQ_BROKER_JARS"] = broker_jars
    from tests.broker_clients.conftest import BrokerProcess, RealBrokerProcess

    acl = place / "plain_acl.yml"
    acl.write_text(_ACL)
    answers: dict[str, Any] = {}
    for kind, process in (("real", RealBrokerProcess), ("ours", BrokerProcess)):
        for name, lines, options in ((kind, LINES, ()), (f"{kind} with access", ACCESS_LINES, ("--acl", str(acl)))):
            its_place = place / name.replace(" ", "-")
            its_place.mkdir()
            broker = process(its_place, {}, options)
            admin = MqAdmin(class_path, its_place / "admin")
            try:
                broker.start()
                answers[name] = _answers(lines, broker, admin, its_place)
                answers[f"{name}: broker.conf"] = broker.conf.read_text()
                answers[f"{name}: exports"] = _exported_json(its_place / "export")
            finally:
                admin.close()
                broker.close()
    (place / "answers.json").write_text(json.dumps(answers, indent=1))


def _exported_json(directory: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
