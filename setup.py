"""Finds the packages: the repository root is itself one of them, which no setting of pyproject.toml can say."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("sim", "store", "faults", "scenarios", "reports")


class Modules(build_py):  # type: ignore[misc]
    """Builds every module of the packages but this file, which stands in the root package's folder."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return package, module and file of each."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [one for one in found if one[:2] != ("tornlog", "setup")]


setup(
    packages=["tornlog"]
    + [f"tornlog.{name}" for name in find_packages(include=[*FOLDERS, *(f"{one}.*" for one in FOLDERS)])],
    cmdclass={"build_py": Modules},
)
