"""What RocketMQ 4.9.8 reads in the texts of the corpus.

`python -m tests.store.formats.remoting.fastjson.answers` asks it again, through Maven, and writes `answers.json`.
"""

import base64
import json
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.conformance.maven import JavaProgram, java_program
from tests.store.formats.remoting.fastjson.corpus import CASES

_ANSWERS = Path(__file__).with_name("answers.json")
_SOURCE = Path(__file__).with_name("Fastjson.java")
_ARTIFACT = "org.apache.rocketmq:rocketmq-common:4.9.8"


def program() -> JavaProgram:
    """Fetch and compile it. JavaMissing if that is not possible here."""
    return java_program("fastjson", [_ARTIFACT], {_SOURCE.name: _SOURCE.read_text(encoding="utf-8")})


def stored_answers() -> list[tuple[str, str, Any]]:
    """Return the kind, the text and the answer of each case."""
    rows = _decoded(_ANSWERS.read_text(encoding="utf-8"))
    return [(kind, text, answer) for kind, text, answer in rows]


def ask_rocketmq(java: JavaProgram, cases: list[tuple[str, str]]) -> list[Any]:
    """Ask RocketMQ."""
    return [_decoded(line) for line in _lines(java, cases)]


def _lines(java: JavaProgram, cases: list[tuple[str, str]]) -> list[str]:
    questions = "".join(f"{kind}\t{base64.b64encode(text.encode()).decode()}\n" for kind, text in cases)
    command = [java.java, "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-cp", java.class_path, "Fastjson"]
    done = subprocess.run(command, input=questions.encode(), capture_output=True, check=True, timeout=120)
    return done.stdout.decode().splitlines()


def _decoded(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


if __name__ == "__main__":
    answers = zip(CASES, _lines(program(), CASES), strict=True)
    rows = [f"[{json.dumps(kind)},{json.dumps(text)},{answer}]" for (kind, text), answer in answers]
    _ANSWERS.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
