import json
from dataclasses import replace

import pytest

from tornlog.faults.simulation.artefact import ArtefactError
from tornlog.scenarios.fuzz.judging import FuzzFailure, FuzzViolation

FINDING = FuzzFailure("index", 3, None, 17, FuzzViolation("chain", "10 entries", "more"), b"\0\xff", b"abc")


@pytest.mark.parametrize("finding", [FINDING, replace(FINDING, mutant="m", raw=b"")])
def test_a_fuzz_finding_survives_a_round_trip_through_json(finding: FuzzFailure) -> None:
    assert FuzzFailure.from_json(finding.to_json()) == finding
    assert finding.name == "fuzz-index-chain"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": "3"}, "failure.seed: Expected `int`, got `str`"),
        ({"seed": True}, "failure.seed: Expected `int`, got `bool`"),
        ({"mutant": 1}, "failure.mutant: Expected `str | null`, got `int`"),
        ({"raw": "a"}, "failure.raw: Invalid base64"),
        ({"breach": None}, "failure.breach: Expected `object`, got `null`"),
    ],
)
def test_the_error_of_an_invalid_finding_names_the_reason(change: dict[str, object], reason: str) -> None:
    envelope = json.loads(FINDING.to_json())
    envelope["failure"] |= change
    with pytest.raises(ArtefactError) as caught:
        FuzzFailure.from_json(json.dumps(envelope))
    assert str(caught.value).startswith(reason)
