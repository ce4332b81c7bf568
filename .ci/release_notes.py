"""Prints the notes of the present version, a section of CHANGELOG.md.

    python .ci/release_notes.py [TAG]

Exits with a message if the files do not agree on the version. With TAG, it also requires that the tag is `v` and the
version, and that `[project.urls]` has the address of the public repository instead of the placeholder.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACEHOLDER = "OWNER"


def release_notes(root: Path, tag: str | None = None, repository: str | None = None) -> str:
    """Return the notes. Raises ValueError with the file, the expectation and the fact."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version, source = project["version"], project["urls"]["Source"]
    for name, pattern in (("__init__.py", r'^__version__ = "(.*)"$'), ("CITATION.cff", r"^version: (.*)$")):
        found = re.search(pattern, (root / name).read_text(), re.MULTILINE)
        if found is None or found[1] != version:
            raise ValueError(f"{name}: expected version {version}, found {found and found[1]}")
    changes = (root / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(version)}\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError(f"CHANGELOG.md: expected a section '## {version}', found none")
    if tag is not None:
        if tag != f"v{version}":
            raise ValueError(f"tag: expected v{version}, found {tag}")
        if PLACEHOLDER in source.split("/") or (repository and source != f"https://github.com/{repository}"):
            expected = f"https://github.com/{repository}" if repository else "the address of the public repository"
            raise ValueError(f"pyproject.toml: urls: expected {expected}, found {source}")
    return section[1].strip() + "\n"


if __name__ == "__main__":
    try:
        sys.stdout.write(release_notes(ROOT, *sys.argv[1:2], repository=os.environ.get("GITHUB_REPOSITORY")))
    except ValueError as error:
        sys.exit(str(error))
