"""A release: its address, its notes, its workflow, and the description that a package index shows."""

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from tests.conftest import copy_of
from tornlog import __version__

VERSION = __version__
NAMING = ("docs/ci.md", "reports/cli/init/templates/probe.yml.jinja", "pyproject.toml")
"""The files that name the address of the repository."""
FILES = (".ci/release_notes.py", "__init__.py", "CHANGELOG.md", "CITATION.cff", "pyproject.toml")
_REPOSITORY = re.compile(r"(?:github\.com/|uses: )([\w-]+/tornlog)\b")


@pytest.fixture
def checkout(source: Path, tmp_path: Path) -> Path:
    """The files that the script for notes reads, with the address of a public repository."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(source / name, tmp_path / name)
    project = tmp_path / "pyproject.toml"
    project.write_text(re.sub(r"(?<=https://github\.com/)[\w-]+(?=/)", "someone", project.read_text()))
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def notes(checkout: Path, *words: str, repository: str = "someone/tornlog") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, checkout / ".ci" / "release_notes.py", *words]
    environment = {"GITHUB_REPOSITORY": repository}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_every_file_names_the_same_repository(source: Path, pyproject: dict[str, Any]) -> None:
    address = pyproject["project"]["urls"]["Source"].removeprefix("https://github.com/")

    for name in NAMING:
        assert set(_REPOSITORY.findall((source / name).read_text())) == {address}, name


def test_the_notes_of_a_release_are_its_section_of_the_changelog(checkout: Path) -> None:
    replace(checkout / "CHANGELOG.md", f"## {VERSION}\n", f"## 9.0\n\n- later\n\n## {VERSION}\n\n- this\n\n## 0.0.1\n")

    done = notes(checkout, f"v{VERSION}")

    assert (done.returncode, done.stdout) == (0, "- this\n"), done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("__init__.py", f'"{VERSION}"', '"9.1"', f"__init__.py: expected version {VERSION}, found 9.1"),
        ("CITATION.cff", f": {VERSION}", ": 9.1", f"CITATION.cff: expected version {VERSION}, found 9.1"),
        ("CHANGELOG.md", f"## {VERSION}\n", "## Unreleased\n", f"expected a section '## {VERSION}', found none"),
        ("pyproject.toml", "/someone/", "/OWNER/", "expected https://github.com/someone/tornlog, found"),
        ("pyproject.toml", "/someone/", "/other/", "expected https://github.com/someone/tornlog, found"),
    ],
)
def test_a_release_is_refused_while_its_files_disagree(
    file: str, old: str, new: str, said: str, checkout: Path
) -> None:
    assert notes(checkout, f"v{VERSION}").returncode == 0
    replace(checkout / file, old, new)

    done = notes(checkout, f"v{VERSION}")

    assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    assert f"tag: expected v{VERSION}, found v9.1" in notes(checkout, "v9.1").stderr


@pytest.mark.parametrize("repository", ["", "someone/tornlog"])
def test_the_placeholder_is_accepted_without_a_tag_only(repository: str, checkout: Path) -> None:
    replace(checkout / "pyproject.toml", "/someone/", "/OWNER/")

    assert notes(checkout, repository=repository).returncode == 0
    assert notes(checkout, f"v{VERSION}", repository=repository).returncode == 1


def test_the_release_workflow_pins_its_actions_and_publishes_only_what_it_tested(
    source: Path, pyproject: dict[str, Any]
) -> None:
    jobs = yaml.safe_load((source / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    versions = [f"cp{version.replace('.', '')}-*" for version in jobs["install"]["strategy"]["matrix"]["python"]]

    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used), used
    assert [jobs[name]["needs"] for name in ("wheels", "install", "draft", "publish")] == [
        "sdist",
        "wheels",
        "install",
        "draft",
    ]
    assert versions == pyproject["tool"]["cibuildwheel"]["build"]
    assert {name for name, job in jobs.items() if job.get("if") == "github.event_name == 'push'"} == {
        "draft",
        "publish",
    }
    assert {name for name, job in jobs.items() if "write" in job["permissions"].values()} == {"draft", "publish"}


@pytest.mark.ci
def test_a_package_index_shows_the_readme_with_links_into_the_repository(wheel: Path, source: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    text = metadata.get_payload()
    assert isinstance(text, str)
    urls = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL", []))
    links = re.findall(r"\]\(([^)]*)\)", text)
    pages = f"{urls['Source']}/blob/v{metadata['Version']}/"

    assert metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# tornlog\n")
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links), links
    inside = [source / link.removeprefix(pages).partition("#")[0] for link in links if link.startswith(pages)]
    assert [path for path in inside if not path.exists()] == []
    assert len(inside) > 20


@pytest.mark.ci
def test_an_sdist_contains_every_file_of_the_repository(
    build: Callable[..., Path], source: Path, tmp_path: Path
) -> None:
    tree = copy_of(source, tmp_path / "tree")
    for name in (".ci", "tests/golden"):
        shutil.copytree(source / name, tree / name)
    expected = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()}

    with tarfile.open(build("sdist", tree)) as tar:
        found = {Path(*Path(one.name).parts[1:]) for one in tar if one.isfile()}

    assert len(expected) > 1000
    assert expected - found == set()
