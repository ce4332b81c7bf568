"""Finds the packages, and builds the cores in C where they can be built.

The repository root is itself one of the packages, which no setting of pyproject.toml can say. Without a compiler
the cores are left out, and the code in Python does all of their work. The recorder's is for Linux alone.
"""

import re
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

NATIVE = "store/formats/native"
RECORDS = ("records", "scan", "entries", "pulls", "puts", "queries", "crc32")
TRACING = "faults/probe/tracing/native"
FOLDERS = ("sim", "store", "faults", "scenarios", "reports")


class Modules(build_py):  # type: ignore[misc]
    """Builds every module of the packages but this file, which stands in the root package's folder."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return package, module and file of each."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [one for one in found if one[:2] != ("tornlog", "setup")]


def core(name: str, folder: str, sources: tuple[str, ...], headers: tuple[str, ...] = ()) -> Extension:
    """Return a core: one build for Python 3.11 and later, which exports no name but the module's."""
    return Extension(
        f"tornlog.{folder.replace('/', '.')}.{name}",
        sources=[f"{folder}/{one}.c" for one in sources],
        depends=[f"{folder}/{one}.h" for one in headers],
        extra_compile_args=["-fvisibility=hidden"],
        py_limited_api=True,
        optional=True,
    )


def description() -> str:
    """Return README.md with absolute links, because a package index shows it without the repository."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    pages = f"{project['urls']['Source']}/blob/v{project['version']}/"
    return re.sub(r"\]\((?!https?://|#)", f"]({pages}", Path("README.md").read_text())


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    packages=["tornlog"]
    + [f"tornlog.{name}" for name in find_packages(include=[*FOLDERS, *(f"{one}.*" for one in FOLDERS)])],
    ext_modules=[
        core("_records", NATIVE, RECORDS, ("tables", "record", "crc32")),
        *([core("_stops", TRACING, ("stops", "plain_calls"), ("stops",))] if sys.platform == "linux" else []),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"build_py": Modules},
)
