import json
from dataclasses import replace

import pytest

from tornlog.scenarios.fuzz.finding import FindingFileError, FuzzFailure
from tornlog.scenarios.fuzz.judging import FuzzViolation

FINDING = FuzzFailure("index", 3, None, 17, FuzzViolation("chain", "10 entries", "more"), b"\0\xff", b"abc")


@pytest.mark.parametrize("finding", [FINDING, replace(FINDING, mutant="m", raw=b"")])
def test_a_finding_is_read_as_it_was_written(finding: FuzzFailure) -> None:
    assert FuzzFailure.from_json(finding.to_json()) == finding


def test_a_finding_is_named_by_format_and_promise() -> None:
    assert FINDING.name == "fuzz-index-chain"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "tornlog-failure/2"}, "format: expected tornlog-fuzz-finding/1, found tornlog-failure/2"),
        ({"seed": "3"}, "seed: expected int, found str"),
        ({"seed": True}, "seed: expected int, found bool"),
        ({"mutant": 1}, "mutant: expected str or NoneType, found int"),
        ({"input": "a"}, "input: expected base64"),
        ({"original": "é"}, "original: expected base64"),
        ({"expected": None}, "expected: expected str, found NoneType"),
    ],
)
def test_a_file_that_is_no_finding_says_why(change: dict[str, object], reason: str) -> None:
    document = {**json.loads(FINDING.to_json()), **change}
    with pytest.raises(FindingFileError, match=reason):
        FuzzFailure.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{}", "3"])
def test_other_json_is_no_finding(text: str) -> None:
    with pytest.raises(FindingFileError):
        FuzzFailure.from_json(text)
