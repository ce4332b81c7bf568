"""`python -m tests.broker_clients.side_by_side [CLIENT...]`: the cases with both brokers, as a table of differences.

The cases are the tests in `cases/`. Each client runs them with this broker and with RocketMQ's 4.9.7, both at the same
time. RocketMQ's broker listens on every interface, so each run has a network namespace of its own.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from tests.broker_clients.programs import PROGRAMS
from tests.conformance.maven import fetched_jars

CASES = Path(__file__).with_name("cases")
REAL = ["org.apache.rocketmq:rocketmq-broker:4.9.7", "org.apache.rocketmq:rocketmq-namesrv:4.9.7"]
"""4.9.7 is the newest version with both artefacts published."""
OF_A_NETWORK = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
RUN_S = 1_500

YES, NOT_OFFERED, NO, HERE_ONLY, REAL_ONLY = "yes", "no call", "no", "here only", "RocketMQ only"
"""A case passes with both brokers, is not offered by the client, fails with both, or passes with one broker."""
_PASSED = {(True, True): YES, (False, False): NO, (True, False): HERE_ONLY, (False, True): REAL_ONLY}


def run_cases(command: Sequence[str], place: Path) -> dict[str, str]:
    """Run all cases with a client's driver; return the table's cell of each case."""
    jars = fetched_jars("real-broker-4.9.7", REAL)
    client = {"ROCKETMQ_CLIENT": json.dumps(command)}
    brokers = {"here": client, "real": client | {"ROCKETMQ_BROKER_JARS": str(jars)}}
    running = {broker: _started(place / f"{broker}.xml", more) for broker, more in brokers.items()}
    for broker, process in running.items():
        output, _ = process.communicate(timeout=RUN_S)
        (place / f"{broker}.log").write_text(output)
        assert process.returncode in (0, 1), output[-3000:]  # 1: some cases fail
    here, real = (read_outcomes(place / f"{broker}.xml") for broker in brokers)
    assert here.keys() == real.keys()
    return {case: _cell(here[case], real[case]) for case in here}


def _started(report: Path, more: Mapping[str, str]) -> "subprocess.Popen[str]":
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "-k", "not ROCKETMQ", f"--junitxml={report}")
    pytest = [sys.executable, "-m", "pytest", *options, str(CASES)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*OF_A_NETWORK, *pytest], text=True, env=os.environ | more, **pipes)


def read_outcomes(report: Path) -> dict[str, bool | None]:
    """Return for each case whether it passed, or None if the client does not offer it."""
    found: dict[str, bool | None] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            assert "not offered" in skipped.get("message", ""), skipped.get("message")
        passed = case.find("failure") is None and case.find("error") is None
        found[_name_of(case.get("name", ""))] = passed if skipped is None else None
    return found


def _name_of(test: str) -> str:
    """Return a case's name: `test_a_body_is_sent[JSON-5000]` is "a body is sent (5000)"."""
    name, _, parameters = test.removeprefix("test_").rstrip("]").partition("[")
    shown = [each for each in parameters.split("-") if each not in ("", "JSON")]
    return name.replace("_", " ") + (f" ({', '.join(shown)})" if shown else "")


def _cell(here: bool | None, real: bool | None) -> str:
    if here is None or real is None:
        return NOT_OFFERED
    return _PASSED[here, real]


def table(cells: Mapping[str, Mapping[str, str]]) -> str:
    """Return the Markdown table of the cases that do not pass everywhere, from cells by client and case."""
    cases = [case for case in next(iter(cells.values())) if any(of[case] != YES for of in cells.values())]
    lines = ["| case | " + " | ".join(cells) + " |", "| --- |" + " --- |" * len(cells)]
    lines += [f"| {case} | " + " | ".join(of[case] for of in cells.values()) + " |" for case in cases]
    return "\n".join(lines)


def read_table(page: str, client: str) -> dict[str, str]:
    """Return the cells of a client in a page's table, without those of cases that pass with both brokers."""
    header, rows = re.findall(r"(?m)^\| case (\|.*)\|$\n\|[- |]+\|$\n((?:^\|.*\|$\n)+)", page)[0]
    column = [name.strip() for name in header.split("|")].index(client)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    return {row[0]: row[column] for row in cells if row[column] != YES}


def main(clients: Sequence[str]) -> None:
    cells = {}
    with TemporaryDirectory() as place:
        for client in clients:
            own = Path(place, client.replace(" ", "-"))
            own.mkdir()
            cells[client] = run_cases(PROGRAMS[client](own / "client"), own)
    print(f"{len(next(iter(cells.values())))} cases\n\n{table(cells)}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PROGRAMS))
