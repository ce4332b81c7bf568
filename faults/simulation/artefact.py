"""What all artefacts have in common: a JSON object that says of which format it is."""

import json
from typing import Any


def artefact_of(text: str, format_name: str) -> dict[str, Any]:
    """Return an artefact's members. ValueError says why text is none of this format."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    found = document.get("format") if isinstance(document, dict) else type(document).__name__
    if found != format_name:
        raise ValueError(f"format: expected {format_name}, found {found}")
    return dict(document)
