import pytest

from tornlog.faults.simulation.artefact import artefact_of


def test_an_artefact_is_read_if_it_says_of_which_format_it_is() -> None:
    assert artefact_of('{"format": "a/1", "b": 2}', "a/1") == {"format": "a/1", "b": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format: expected a/1, found list"),
        ("{}", "format: expected a/1, found None"),
        ('{"format": "a/2"}', "format: expected a/1, found a/2"),
    ],
)
def test_anything_else_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        artefact_of(text, "a/1")
